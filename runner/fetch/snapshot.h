#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contract/files/hub_cache.h"
#include "contract/files/hub_listing.h"
#include "contract/text/hub_name.h"

namespace fsdp {

// The commit and the files that a fetch has found.
struct FetchedCommit {
  HubName name{};  // without a path
  std::string commit{};
  std::vector<ListedFile> files{};     // only the wanted ones
  std::vector<HubListing> listings{};  // the sources of `files`
};

// Links the complete blobs of the files into the snapshot. Then stores the listings, and at last
// points the name's revision to the commit. Calls `wait` while another fetch does the same. Throws
// std::runtime_error if the cache cannot be written.
void make_visible(const CachedRepository& repository, const FetchedCommit& fetched,
                  const std::function<void()>& wait);

}  // namespace fsdp
