#include "runner/report/names.h"

namespace fsdp {

std::string joined_names(const std::vector<std::string>& names) {
  constexpr size_t kMostShown = 8;
  const size_t shown = names.size() > kMostShown ? kMostShown - 1 : names.size();
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += names[i];
  }
  if (shown < names.size()) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

}  // namespace fsdp
