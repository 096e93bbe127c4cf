#include "runner/launch/rank_variables.h"

namespace fsdp {

std::map<std::string, std::string> rank_variables(const RankPlace& place, size_t rank) {
  const std::string ranks = std::to_string(place.ranks);
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", ranks},
          {"LOCAL_WORLD_SIZE", ranks},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(place.port)},
          {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},  // so that CUDA counts GPUs as NVML does
          {"CUDA_VISIBLE_DEVICES", place.visible_gpus}};
}

}  // namespace fsdp
