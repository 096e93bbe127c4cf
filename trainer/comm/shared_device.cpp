#include "trainer/comm/shared_device.h"

#include <map>
#include <sstream>

namespace fsdp {
namespace {

// "0 2"; empty: all differ.
std::string find_shared(ProcessGroup& group, const std::string& own_device) {
  std::map<std::string, int> first_rank{{own_device, 0}};
  std::string shared;
  for (int rank = 1; rank < group.size(); ++rank) {
    const std::string device = group.take("device/" + std::to_string(rank));
    const auto [found, is_new] = first_rank.emplace(device, rank);
    if (!is_new && shared.empty()) {
      shared = std::to_string(found->second) + ' ' + std::to_string(rank);
    }
  }
  return shared;
}

}  // namespace

std::optional<std::pair<int, int>> ranks_that_share_a_device(ProcessGroup& group,
                                                             const std::string& device) {
  const std::string own = "/" + std::to_string(group.rank());
  std::string shared;
  if (group.rank() == 0) {
    shared = find_shared(group, device);
  } else {
    group.leave("device" + own, device);
  }
  shared = group.agree("ranks that share a device", shared);
  if (shared.empty()) return std::nullopt;
  // Rank 0, which hosts the store, goes last.
  if (group.rank() != 0) {
    group.leave("knows of the shared device" + own, "");
  } else {
    for (int rank = 1; rank < group.size(); ++rank) {
      group.take("knows of the shared device/" + std::to_string(rank));
    }
  }
  std::pair<int, int> ranks;
  std::istringstream(shared) >> ranks.first >> ranks.second;
  return ranks;
}

}  // namespace fsdp
