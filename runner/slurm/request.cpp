#include "runner/slurm/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <string>

#include "contract/inputs/inputs.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

bool is_on_gpus(const RunSpec& spec) {
  if (spec.device == DeviceKind::kAuto) return spec.slurm.gpus_per_node > 0;
  return spec.device == DeviceKind::kCuda;
}

// The numbers of nodes, up to `most`, that divide `ranks`: "1, 2, 4".
std::string even_numbers_of_nodes(int64_t ranks, int64_t most) {
  const auto is_even = [&](int64_t nodes) { return ranks % nodes == 0; };
  return fmt::to_string(fmt::join(
      std::views::iota(int64_t{1}, std::min(ranks, most) + 1) | std::views::filter(is_even), ", "));
}

SlurmRequest request_on_gpus(const SlurmSpec& slurm, int64_t ranks) {
  const int64_t most_gpus = slurm.gpus_per_node;
  if (most_gpus < 1) {
    throw ConfigError("", "slurm.gpus_per_node",
                      fmt::format("is {}, but the run is on GPUs ({}); set the GPUs of a node of "
                                  "the cluster, or device: cpu",
                                  most_gpus, counted(ranks, "rank")));
  }
  const int64_t nodes = (ranks + most_gpus - 1) / most_gpus;
  if (nodes > slurm.nodes) {
    throw ConfigError("", "slurm.nodes",
                      fmt::format("{} on nodes of {} need {}, and slurm.nodes allows {}; raise it, "
                                  "or lower strategy.ranks to {}",
                                  counted(ranks, "rank"), counted(most_gpus, "GPU"),
                                  counted(nodes, "node"), slurm.nodes, slurm.nodes * most_gpus));
  }
  if (ranks % nodes != 0) {
    throw ConfigError("", "slurm.gpus_per_node",
                      fmt::format("{} do not spread evenly over {} of {}; make strategy.ranks a "
                                  "multiple of {}, or set as many GPUs a node as divide the ranks",
                                  counted(ranks, "rank"), counted(nodes, "node"),
                                  counted(most_gpus, "GPU"), most_gpus));
  }
  return {.nodes = nodes, .ranks_per_node = ranks / nodes, .gpus_per_node = ranks / nodes};
}

SlurmRequest request_on_cpus(const SlurmSpec& slurm, int64_t ranks) {
  const int64_t most_a_node = (ranks + slurm.nodes - 1) / slurm.nodes;
  const int64_t nodes = (ranks + most_a_node - 1) / most_a_node;
  if (ranks % nodes != 0) {
    throw ConfigError(
        "", "slurm.nodes",
        fmt::format("{} do not spread evenly over {}; allowed: {}", counted(ranks, "rank"),
                    counted(nodes, "node"), even_numbers_of_nodes(ranks, slurm.nodes)));
  }
  return {.nodes = nodes, .ranks_per_node = ranks / nodes, .gpus_per_node = 0};
}

}  // namespace

SlurmRequest slurm_request(const SlurmSpec& slurm, int64_t ranks, bool uses_gpus) {
  return uses_gpus ? request_on_gpus(slurm, ranks) : request_on_cpus(slurm, ranks);
}

SlurmRequest slurm_request(const RunSpec& spec) {
  return slurm_request(spec.slurm, spec.strategy.ranks, is_on_gpus(spec));
}

SlurmRequest largest(const std::vector<SlurmRequest>& requests) {
  SlurmRequest all;
  for (const SlurmRequest& request : requests) {
    all.nodes = std::max(all.nodes, request.nodes);
    all.ranks_per_node = std::max(all.ranks_per_node, request.ranks_per_node);
    all.gpus_per_node = std::max(all.gpus_per_node, request.gpus_per_node);
  }
  return all;
}

bool may_share_array(const RunSpec& a, const RunSpec& b) {
  return a.slurm == b.slurm && slurm_request(a) == slurm_request(b) &&
         wants_checkpoints(a) == wants_checkpoints(b);
}

std::vector<std::filesystem::path> input_folders(const RunSpec& spec) {
  std::set<std::filesystem::path> folders;
  for (const auto& [key, file] : input_files(spec)) {
    folders.insert(std::filesystem::absolute(file).parent_path());
  }
  return {folders.begin(), folders.end()};
}

void check_one_job(const std::string& one_point, const SlurmSpec& one,
                   const std::string& other_point, const SlurmSpec& other) {
  if (one == other) return;
  throw ConfigError("", "slurm",
                    fmt::format("'{}' and '{}' ask for different things, but with slurm.mode: "
                                "allocation all runs are in one job; give both the same, or set "
                                "slurm.mode: per_run",
                                one_point, other_point));
}

}  // namespace fsdp
