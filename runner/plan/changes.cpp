#include "runner/plan/changes.h"

namespace fsdp {

std::span<const Change> changes() {
  using enum ChangedPart;
  static constexpr std::array kChanges{
      Change{kRecomputation, "recompute nothing", "activation_checkpointing.every=0", ""},
      Change{kRecomputation, "recompute MLPs",
             "activation_checkpointing.every=1 activation_checkpointing.what=mlp",
             "the MLP's first product once more"},
      Change{kRecomputation, "recompute attention",
             "activation_checkpointing.every=1 activation_checkpointing.what=attention",
             "attention and the products before it once more"},
      Change{kRecomputation, "recompute blocks",
             "activation_checkpointing.every=1 activation_checkpointing.what=block",
             "every block's forward once more, up to a third more time"},
      Change{kSharding, "ddp", "strategy.kind=ddp", ""},
      Change{kSharding, "shard_grad_op", "strategy.kind=fsdp strategy.sharding=shard_grad_op",
             "parameters are gathered for each step"},
      Change{kSharding, "full_shard", "strategy.kind=fsdp strategy.sharding=full_shard",
             "parameters are gathered for each use"},
      Change{kOther, "sharded sums", "strategy.accumulate=sharded",
             "gradients are reduced every micro-batch"},
      Change{kOther, "step in backward", "optimizer.in_backward=true",
             "no clipping, and one micro-batch a step"},
      Change{kOther, "bf16 products", "precision=bf16_mixed", "products are rounded to bfloat16"},
      Change{kOther, "bf16 state", "optimizer.state_dtype=bf16",
             "the optimizer's state is rounded"},
      Change{kOther, "bf16 weights", "precision=bf16_true", "weights are rounded to bfloat16 too"},
      Change{kOffload, "offload nothing", "strategy.offload=none", ""},
      Change{kOffload, "offload optimizer", "strategy.offload=optimizer",
             "the CPU steps; gradients and parameters are copied"},
      Change{kOffload, "offload parameters", "strategy.offload=parameters",
             "as that, and parameters are copied for each use"}};
  return kChanges;
}

}  // namespace fsdp
