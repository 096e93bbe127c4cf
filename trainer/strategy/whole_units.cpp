// Gathers one unit after another for checkpoints. At most one is whole at a time.
#include "trainer/strategy/whole_units.h"

#include "trainer/memory/memory_label.h"

namespace fsdp {

void for_each_whole_unit(
    ShardStore& store, const Mesh& mesh,
    const std::function<void(const FlatLayout& layout, const at::Tensor& whole)>& visit) {
  const at::TensorOptions options = store.tensor_options();
  const std::vector<at::Tensor> shards = store.optimizer_parameters();
  for (int unit = 0; unit < store.unit_count(); ++unit) {
    const MemoryScope scope(unit, MemoryUse::kWhole);
    const FlatLayout& layout = store.layout(unit);
    at::Tensor whole = shards[unit];
    if (mesh.shard_group() != nullptr) {
      whole = at::empty({layout.numel()}, options);
      mesh.shard_group()->all_gather(whole, shards[unit].to(options.device()), unit).wait();
    }
    visit(layout, whole);
  }
}

}  // namespace fsdp
