#include "contract/spec/hardware_flops.h"

namespace fsdp {
namespace {

double recomputed_flops(const BlockFlops& block, CheckpointedPart part) {
  switch (part) {
    case CheckpointedPart::kBlock:
      return block.total();
    case CheckpointedPart::kMlp:
      return block.mlp;
    case CheckpointedPart::kAttention:
      return block.attention;
  }
  return 0;
}

}  // namespace

double hardware_flops(const ForwardFlops& forward,
                      const ActivationCheckpointingSpec& checkpointing) {
  if (checkpointing.every == 0) return model_flops(forward);
  // Counts the first of every K blocks. The decoder's blocks continue the encoder's count.
  const auto among_first = [&](int64_t blocks) {
    return (blocks + checkpointing.every - 1) / checkpointing.every;
  };
  const int64_t blocks = among_first(forward.blocks);
  const int64_t decoder_blocks = among_first(forward.blocks + forward.decoder_blocks) - blocks;
  return model_flops(forward) +
         static_cast<double>(blocks) * recomputed_flops(forward.block, checkpointing.what) +
         static_cast<double>(decoder_blocks) *
             recomputed_flops(forward.decoder_block, checkpointing.what);
}

}  // namespace fsdp
