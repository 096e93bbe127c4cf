#include "runner/store/results_unavailable.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace fsdp {

bool says_disk_full(const std::exception& error) {
  if (dynamic_cast<const DiskFull*>(&error) != nullptr) return true;
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  return of_system != nullptr && (of_system->code() == std::errc::no_space_on_device ||
                                  of_system->code().value() == EDQUOT);
}

bool may_pass(const std::exception& error) {
  if (dynamic_cast<const ResultsUnavailable*>(&error) != nullptr) return true;
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system == nullptr) return false;
  constexpr std::array kPassing = {ENOSPC, EDQUOT, EROFS, EACCES, EPERM,
                                   EIO,    ESTALE, EBUSY, EFBIG,  ETIMEDOUT};
  const std::error_condition cause = of_system->code().default_error_condition();
  return cause.category() == std::generic_category() &&
         std::ranges::find(kPassing, cause.value()) != kPassing.end();
}

}  // namespace fsdp
