#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/text/utf8.h"
#include "runner/commands/run_statuses.h"
#include "runner/progress/run_progress.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kColumnsOfGpus = 100;  // if the width is unknown

std::string percent(std::optional<double> value) {
  return value ? decimals(std::round(*value), 0) + " %" : "-";
}

std::optional<double> part_percent(std::optional<int64_t> part, std::optional<int64_t> whole) {
  if (!part || whole.value_or(0) <= 0) return std::nullopt;
  return 100 * static_cast<double>(*part) / static_cast<double>(*whole);
}

// Returns the node's power if known, else the total of its GPUs.
std::string power_text(const NodeState& state) {
  if (state.node.power_watts) return three_digits(*state.node.power_watts) + " W";
  std::optional<double> watts;
  for (const DeviceSample& gpu : state.gpus) {
    if (gpu.power_watts) watts = watts.value_or(0) + *gpu.power_watts;
  }
  return watts ? three_digits(*watts) + " W of GPUs" : "-";
}

std::vector<Cell> node_cells(const NodeState& state, int64_t now_unix_ms) {
  const DeviceSample& node = state.node;
  const bool is_known =
      node.memory_used_bytes >= 0 && node.memory_total_bytes >= node.memory_used_bytes.value_or(0);
  const auto available =
      is_known ? std::optional(*node.memory_total_bytes - *node.memory_used_bytes) : std::nullopt;
  const auto age_ms =
      std::max(0.0, static_cast<double>(now_unix_ms) - static_cast<double>(state.sampled_unix_ms));
  return {state.host,
          node.cpu_count ? std::to_string(*node.cpu_count) : "-",
          percent(node.utilization_percent),
          gibibytes(available),
          percent(part_percent(available, node.memory_total_bytes)),
          gibibytes(node.memory_free_bytes),
          gibibytes(node.memory_total_bytes),
          power_text(state),
          duration_text(age_ms / 1000) + " ago"};
}

std::vector<Column> node_columns() {
  return {{.heading = "node", .is_left = true, .least = 8},
          {.heading = "CPUs"},
          {.heading = "busy"},
          {.heading = "available GiB"},
          {.heading = "part"},
          {.heading = "free GiB"},
          {.heading = "total GiB", .drop_order = 2},
          {.heading = "power", .when_known = true},
          {.heading = "sampled", .drop_order = 1}};
}

std::string gpu_text(const DeviceSample& gpu) {
  constexpr size_t kPercent = 5;  // "100 %"
  const auto part = part_percent(gpu.memory_used_bytes, gpu.memory_total_bytes);
  return fmt::format("{} {:>{}} busy {}/{} GiB{}", visible_line(gpu.device),
                     percent(gpu.utilization_percent), kPercent, gibibytes(gpu.memory_used_bytes),
                     gibibytes(gpu.memory_total_bytes), part ? ' ' + percent(part) : "");
}

// Returns the lines below the node's line, in columns of equal width.
std::vector<std::string> gpu_lines(const NodeState& state, size_t width) {
  constexpr size_t kIndent = 2, kGap = 4;
  std::vector<std::string> texts;
  size_t widest = 0;
  for (const DeviceSample& gpu : state.gpus) {
    texts.push_back(gpu_text(gpu));
    widest = std::max(widest, display_width(texts.back()));
  }
  const size_t room = width == 0 ? kColumnsOfGpus : width;
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    if (lines.empty() || display_width(lines.back()) + kGap + widest > room) {
      lines.push_back(std::string(kIndent, ' '));
    } else {
      lines.back().append(kGap, ' ');
    }
    lines.back() += display_left(text, widest);
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

}  // namespace

std::vector<NodeState> node_states(const Store& store, std::span<const RunState> runs) {
  // The key sorts by host, and gpu:2 before gpu:10.
  std::map<std::tuple<std::string, size_t, std::string>, Recorded<DeviceSample>> newest;
  for (const RunState& run : runs) {
    if (run.row.status != RunStatus::kRunning || !run.row.attempt) continue;
    for (const auto& sample :
         store.newest_device_samples(run.row.run, static_cast<int>(*run.row.attempt))) {
      auto& kept = newest[{sample.body.host, sample.body.device.size(), sample.body.device}];
      if (sample.time_unix_ms >= kept.time_unix_ms) kept = sample;
    }
  }
  std::vector<NodeState> states;
  for (const auto& [key, sample] : newest) {
    const DeviceSample& body = sample.body;
    if (states.empty() || states.back().host != body.host) states.push_back({.host = body.host});
    NodeState& state = states.back();
    state.sampled_unix_ms = std::max(state.sampled_unix_ms, sample.time_unix_ms);
    if (body.device == "cpu") {
      state.node = body;
    } else {
      state.gpus.push_back(body);
    }
  }
  return states;
}

std::vector<std::string> node_table(std::span<const NodeState> nodes, size_t width,
                                    int64_t now_unix_ms) {
  Table table{.columns = node_columns()};
  for (const NodeState& state : nodes) table.add(node_cells(state, now_unix_ms));
  const TableLines shown = lay_out(table, {.width = width});
  std::vector<std::string> lines = shown.heading;
  for (size_t i = 0; i < nodes.size(); ++i) {
    lines.push_back(shown.rows[i]);
    std::ranges::move(gpu_lines(nodes[i], width), std::back_inserter(lines));
  }
  return lines;
}

}  // namespace fsdp
