// Finds two ranks with one GPU, through the store, because NCCL would hang.
#include "trainer/comm/shared_device.h"

#include <map>
#include <sstream>

#include "trainer/comm/verdict.h"

namespace fsdp {
namespace {

// Returns the first two ranks with the same device, as "0 2"; empty if all devices differ.
std::string find_shared(const std::vector<std::string>& devices) {
  std::map<std::string, size_t> first_rank;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const auto [found, is_new] = first_rank.emplace(devices[rank], rank);
    if (!is_new) return std::to_string(found->second) + ' ' + std::to_string(rank);
  }
  return "";
}

}  // namespace

std::optional<std::pair<int, int>> ranks_that_share_a_device(ProcessGroup& group,
                                                             const std::string& device) {
  const std::string shared = verdict_on("device", device, group, find_shared);
  if (shared.empty()) return std::nullopt;
  std::pair<int, int> ranks;
  std::istringstream(shared) >> ranks.first >> ranks.second;
  return ranks;
}

}  // namespace fsdp
