#pragma once

#include <string_view>

// What pages are made of, which the build puts into the program: the files in html/ and D3 as
// it is installed.
namespace fsdp {

extern const std::string_view kHtmlPage;  // with {{names}} of what is put in
extern const std::string_view kHtmlStyle;
extern const std::string_view kHtmlScript;  // of every page
extern const std::string_view kReportSections;
extern const std::string_view kReportScript;
extern const std::string_view kPlanSections;
extern const std::string_view kPlanScript;
extern const std::string_view kFigureLibrary;
extern const std::string_view kFigureLicence;

}  // namespace fsdp
