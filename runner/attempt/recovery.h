#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "runner/store/store.h"

namespace fsdp {

// Closes the attempts that runners left behind which were killed, or could not record their ends:
// what their ranks wrote is ingested, and their status follows from it. Ranks die with their
// runner, and the caller holds the experiment's lock, so nothing of them runs. `say` is told about
// each attempt.
void recover_attempts(Store& store, const std::filesystem::path& results,
                      std::string_view experiment,
                      const std::function<void(const std::string&)>& say);

}  // namespace fsdp
