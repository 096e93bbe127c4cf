#pragma once

#include <string>
#include <string_view>

namespace fsdp {

// A reader's own text in CommonMark as HTML, for a page whose headings go down to <h2>: headings
// begin at <h3>. Markup and links that run scripts are left out, and images become links, as the
// page loads nothing. Bytes that are no UTF-8 become U+FFFD.
std::string notes_html(std::string_view markdown);

}  // namespace fsdp
