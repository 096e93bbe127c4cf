#pragma once

#include <cstdint>
#include <string>

#include "trainer/comm/process_group.h"
#include "trainer/model/model.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// The digest of a run's frozen weights. Every rank adds the parts that it holds. The digest does
// not depend on how the weights are divided, nor on their order.
class FrozenDigest {
 public:
  // Adds a parameter's stored values from element `offset` on. They are on the host.
  void add(const Parameter& parameter, int64_t offset, const at::Tensor& values);

  // Returns the digest of all ranks' parts. Every rank calls it. `is_counted` is false if another
  // rank holds the same parts. Throws CommunicationError.
  std::string of_all(ProcessGroup& world, bool is_counted) const;

 private:
  __extension__ using Wide = unsigned __int128;
  Wide sum_ = 0;
};

// Returns `fill`, which then adds the frozen weights that it fills in to `digest`.
FillParameter with_digest(FillParameter fill, FrozenDigest& digest);

}  // namespace fsdp
