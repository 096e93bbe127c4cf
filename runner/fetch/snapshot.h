#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contract/files/hub_cache.h"
#include "contract/files/hub_listing.h"
#include "contract/text/hub_name.h"

namespace fsdp {

// What a fetch has found of a commit.
struct FetchedCommit {
  HubName name{};  // without a path
  std::string commit{};
  std::vector<ListedFile> files{};     // that are wanted
  std::vector<HubListing> listings{};  // that say so
};

// Makes the snapshot have the files, whose blobs are whole, then keeps the listings, and at last
// makes the name's revision be the commit. `wait` is called while another fetch does the same.
// Throws std::runtime_error if the cache cannot be written.
void make_visible(const CachedRepository& repository, const FetchedCommit& fetched,
                  const std::function<void()>& wait);

}  // namespace fsdp
