// Puts a page together from its parts and data. No data can become markup.
#include "runner/page/html_page.h"

#include <map>

#include "base/text/utf8.h"

namespace fsdp {
namespace {

std::string escaped_html(std::string_view text) {
  static const std::map<char, std::string_view> kEscapes{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string escaped;
  for (const char c : text) {
    const auto found = kEscapes.find(c);
    escaped += found == kEscapes.end() ? std::string_view(&c, 1) : found->second;
  }
  return escaped;
}

// Escapes JSON: no text may end the script or open a comment in it. '<' occurs only in strings.
std::string safe_in_script(std::string_view json) {
  std::string safe;
  for (const char c : json) {
    safe += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
  }
  return safe;
}

}  // namespace

std::string html_page(const HtmlPage& page) {
  const std::string title = escaped_html(visible_line(page.title));
  std::string text;
  std::string_view rest = kHtmlPage;
  for (size_t begin; (begin = rest.find("{{")) != std::string_view::npos;) {
    text += rest.substr(0, begin);
    const size_t end = rest.find("}}", begin);
    const std::string_view name = rest.substr(begin + 2, end - begin - 2);
    rest.remove_prefix(end + 2);
    if (name == "title") text += title;
    if (name == "style") text += kHtmlStyle;
    if (name == "sections") text += page.sections;
    if (name == "data") text += safe_in_script(page.data);
    if (name == "library") text += kFigureLibrary;
    if (name == "figure_licence") text += escaped_html(kFigureLicence);
    if (name == "script") text.append(kHtmlScript).append(page.script);
  }
  return text.append(rest);
}

}  // namespace fsdp
