#include "runner/plan/changes.h"

#include <array>

namespace fsdp {

std::span<const Change> changes_that_save_memory() {
  static constexpr std::array kChanges{
      Change{"recompute MLPs", "activation_checkpointing.every=1 activation_checkpointing.what=mlp",
             "the MLP's first product once more"},
      Change{"recompute attention",
             "activation_checkpointing.every=1 activation_checkpointing.what=attention",
             "attention and the products before it once more"},
      Change{"recompute blocks",
             "activation_checkpointing.every=1 activation_checkpointing.what=block",
             "every block's forward once more, up to a third more time"},
      Change{"full_shard", "strategy.sharding=full_shard",
             "parameters are gathered for backward too"},
      Change{"fsdp", "strategy.kind=fsdp", "parameters are gathered for each use"},
      Change{"sharded sums", "strategy.accumulate=sharded",
             "gradients are reduced every micro-batch"},
      Change{"step in backward", "optimizer.in_backward=true",
             "no clipping, and one micro-batch a step"},
      Change{"bf16 products", "precision=bf16_mixed", "products are rounded to bfloat16"},
      Change{"bf16 state", "optimizer.state_dtype=bf16", "the optimizer's state is rounded"},
      Change{"bf16 weights", "precision=bf16_true", "weights are rounded to bfloat16 too"},
      Change{"offload optimizer", "strategy.offload=optimizer",
             "the CPU steps; gradients and parameters are copied"},
      Change{"offload parameters", "strategy.offload=parameters",
             "as that, and parameters are copied for each use"}};
  return kChanges;
}

}  // namespace fsdp
