// Lets rank 0 digest each file once for all ranks.
#include "trainer/train/shared_digests.h"

#include "base/files/file_digest.h"
#include "base/system/start_up.h"

namespace fsdp {

const std::string& SharedDigests::digest_of(const std::filesystem::path& file) {
  const auto [known, is_new] = known_.try_emplace(file);
  if (!is_new) return known->second;
  std::string digest;
  if (world_.rank() == 0) {
    begin_start_up_part("reading " + file.string());
    digest = file_digest(file);
  }
  // Rank 0 may read for longer than a start may take.
  pause_start_up();
  known->second = world_.agree("file_digest/" + std::to_string(known_.size()), digest);
  return known->second;
}

}  // namespace fsdp
