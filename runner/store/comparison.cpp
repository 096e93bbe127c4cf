#include "runner/store/comparison.h"

#include <fmt/format.h>

namespace fsdp {

void add_held_time(ComparisonRow& row, const AttemptTime& attempt) {
  const auto add = [&](std::optional<double>& sum, double count) {
    sum = sum.value_or(0) + attempt.time_ms * count;
  };
  if (attempt.nodes_held) add(row.held.node_time_ms, *attempt.nodes_held);
  if (row.spec.device != DeviceKind::kCuda) return;
  const auto ranks = static_cast<double>(row.spec.strategy.ranks);
  add(row.held.gpu_time_ms, attempt.gpus_held.value_or(ranks));
  if (!attempt.nodes_held) return;
  add(row.held.gpu_time_in_jobs_ms, attempt.gpus_held.value_or(ranks));
  add(row.held.gpu_time_of_ranks_ms, ranks);
}

std::string sharding_text(const StrategySpec& strategy) {
  if (strategy.kind != StrategyKind::kFsdp) return "";
  const std::string_view name = name_of(strategy.sharding);
  return strategy.shard_group_size ? fmt::format("{} {}", name, *strategy.shard_group_size)
                                   : std::string(name);
}

std::string wrap_text(const WrapSpec& wrap) {
  if (wrap.blocks) return fmt::format("blocks {}", *wrap.blocks);
  if (wrap.min_parameters) return fmt::format("min_parameters {}", *wrap.min_parameters);
  return std::string(name_of(wrap.policy));
}

std::string precision_text(const PrecisionSpec& precision) {
  const auto& [kind, parameters, gradients, reduction, buffers] = precision;
  const bool is_of_dtypes = parameters || reduction || buffers;
  std::string text(name_of(kind));
  if (is_of_dtypes) {
    text = fmt::format("{}/{}/{}", name_of(parameters.value_or(Dtype::kFp32)),
                       name_of(reduction.value_or(parameters.value_or(Dtype::kFp32))),
                       name_of(buffers.value_or(Dtype::kFp32)));
  }
  return gradients ? fmt::format("{} gradients {}", text, name_of(*gradients)) : text;
}

}  // namespace fsdp
