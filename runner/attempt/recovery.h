#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "runner/store/store.h"

namespace fsdp {

// Closes the attempts of runners that were killed, or could not record the end. The ranks' events
// are ingested, and decide the status. Ranks die with their runner, and the caller holds the
// experiment's lock, so no rank runs any more. `say` is told about each attempt.
void recover_attempts(Store& store, const std::filesystem::path& results,
                      std::string_view experiment,
                      const std::function<void(const std::string&)>& say);

}  // namespace fsdp
