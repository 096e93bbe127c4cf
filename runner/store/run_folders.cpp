#include "runner/store/run_folders.h"

#include <algorithm>
#include <iterator>
#include <system_error>

namespace fsdp {

using std::filesystem::path;

bool is_run_folder(const path& folder) {
  return std::distance(folder.begin(), folder.end()) == 3 && *folder.begin() == "runs" &&
         std::ranges::none_of(
             folder, [](const path& name) { return name.empty() || name == "." || name == ".."; });
}

bool is_own_run_folder(const path& results, const path& folder) {
  if (!is_run_folder(folder)) return false;
  std::error_code error;
  const path runs = std::filesystem::canonical(results / "runs", error);
  if (error) return false;
  const path found = std::filesystem::canonical(results / folder, error);
  return !error && found == runs / folder.lexically_relative("runs");
}

}  // namespace fsdp
