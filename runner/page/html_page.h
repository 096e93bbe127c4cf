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
};

std::string html_page(const HtmlPage& page);

// The parts of pages: the files in html/ and D3, which the build embeds in the program.
extern const std::string_view kHtmlPage;  // with {{names}} as placeholders
extern const std::string_view kHtmlStyle;
extern const std::string_view kHtmlScript;  // of every page
extern const std::string_view kReportSections;
extern const std::string_view kReportScript;
extern const std::string_view kPlanSections;
extern const std::string_view kPlanScript;
extern const std::string_view kFigureLibrary;
extern const std::string_view kFigureLicence;

}  // namespace fsdp
