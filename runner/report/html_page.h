#pragma once

#include <string>
#include <string_view>

namespace fsdp {

// A page that needs no network: one file with its style, its scripts and what they show.
struct HtmlPage {
  std::string title;          // any text
  std::string_view sections;  // markup of its main part
  std::string_view script;    // which fills the sections
  std::string data;           // JSON, which the script reads
  std::string notes{};        // markup above the sections, as notes_html() makes it
};

std::string html_page(const HtmlPage& page);

}  // namespace fsdp
