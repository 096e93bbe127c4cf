#include "runner/launch/rank_variables.h"

#include <algorithm>
#include <array>

namespace fsdp {

using std::string_view_literals::operator""sv;

// The scripts in slurm_templates/ unset these too.
bool is_of_a_launcher(std::string_view name) {
  static constexpr std::array kNames = {
      "RANK"sv,       "WORLD_SIZE"sv,       "LOCAL_RANK"sv,  "LOCAL_WORLD_SIZE"sv,
      "GROUP_RANK"sv, "GROUP_WORLD_SIZE"sv, "NODE_RANK"sv,   "ROLE_RANK"sv,
      "ROLE_NAME"sv,  "ROLE_WORLD_SIZE"sv,  "MASTER_ADDR"sv, "MASTER_PORT"sv};
  static constexpr std::array kPrefixes = {
      "TORCHELASTIC_"sv, "TORCH_DISTRIBUTED_"sv, "PET_"sv,           "OMPI_COMM_WORLD_"sv, "PMI_"sv,
      "PMIX_"sv,         "MPI_LOCAL"sv,          "MV2_COMM_WORLD_"sv};
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::map<std::string, std::string> rank_variables(const RankPlace& place, size_t rank) {
  const std::string ranks = std::to_string(place.ranks);
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", ranks},
          {"LOCAL_WORLD_SIZE", ranks},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(place.port)},
          {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},  // CUDA then counts GPUs as NVML does
          {"CUDA_VISIBLE_DEVICES", place.visible_gpus}};
}

}  // namespace fsdp
