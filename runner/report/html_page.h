#pragma once

#include <string>
#include <string_view>

namespace fsdp {

// A page that needs no network. One file contains its style, scripts and data.
struct HtmlPage {
  std::string title;          // any text
  std::string_view sections;  // markup of its main part
  std::string_view script;    // fills the sections
  std::string data;           // JSON for the script
  std::string notes{};        // markup above the sections, as notes_html() makes it
};

std::string html_page(const HtmlPage& page);

}  // namespace fsdp
