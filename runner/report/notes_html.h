#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fsdp {

// Returns a reader's own text as HTML, for a page whose headings go down to <h2>: headings begin
// at <h3>. The text is CommonMark with GitHub's tables. Markup is left out. Only links to http and
// https stay links, and images of the web become links, as the page loads nothing. Bytes that are
// no UTF-8 become U+FFFD.
//
// Throws ConfigError (place: `file`) if a table could have more than a million cells.
//
// Images are embedded. Their names are relative to the folder of `file`, which holds the text.
// Throws ConfigError (place: `file` or the image) unless they are images in that folder or below
// it, of at most kMostImageBytes together.
inline constexpr size_t kMostImageBytes = size_t{32} << 20;
std::string notes_html(std::string_view markdown, const std::filesystem::path& file);

}  // namespace fsdp
