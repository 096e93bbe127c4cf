#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "runner/store/store.h"

namespace fsdp {

// Closes the attempts that runners left behind which were killed: what their ranks wrote is
// ingested, and their status follows from it. Ranks die with their runner, so nothing of them runs.
// Throws std::runtime_error when another runner is at work on the experiment: one that is alive on
// `host`, or one on another host, of which nothing is known (taken for dead when
// `take_other_hosts_for_dead`). `say` is told about each attempt.
void recover_attempts(Store& store, const std::filesystem::path& results,
                      std::string_view experiment, std::string_view host,
                      bool take_other_hosts_for_dead,
                      const std::function<void(const std::string&)>& say);

}  // namespace fsdp
