#pragma once

#include <string_view>

// The parts of pages: the files in html/ and D3, which the build embeds in the program.
namespace fsdp {

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
