#include "runner/commands/output.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include "runner/host/whole_file.h"

namespace fsdp {
namespace {

struct Extension {
  std::string_view text;
  std::string_view format;
};

constexpr Extension kExtensions[] = {{".html", "html"}, {".htm", "html"},  {".md", "markdown"},
                                     {".csv", "csv"},   {".json", "json"}, {".tex", "latex"}};

}  // namespace

std::string_view format_of_extension(const std::filesystem::path& extension) {
  const auto known = std::ranges::find(kExtensions, extension.native(), &Extension::text);
  return known == std::end(kExtensions) ? std::string_view() : known->format;
}

bool is_of_text(const std::filesystem::path& extension) {
  return extension.empty() || extension == ".txt";
}

void write_output(const std::filesystem::path& file, std::string_view text) {
  if (file.empty()) {
    std::cout << text << std::flush;
  } else {
    write_whole_file(file, text);
  }
}

}  // namespace fsdp
