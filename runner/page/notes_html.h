#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fsdp {

// Returns a reader's own text as HTML. Headings begin at <h3>, because the page uses <h1> and <h2>.
// The text is CommonMark with GitHub's tables. HTML in it is left out. Only links to http and https
// stay links. Web images become links, as the page loads nothing. Bytes that are not UTF-8 become
// U+FFFD.
//
// Throws ConfigError (place: `file`) if a table could have more than a million cells.
//
// Images are embedded. Their names are relative to the folder of `file`, which holds the text.
// Throws ConfigError (place: `file` or the image) unless they are images in that folder or below
// it, with at most kMostImageBytes in all.
inline constexpr size_t kMostImageBytes = size_t{32} << 20;
std::string notes_html(std::string_view markdown, const std::filesystem::path& file);

}  // namespace fsdp
