#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runner/answers/facts.h"
#include "runner/table/names.h"
#include "tests/runner/report/report_fixture.h"

// Made-up results with a known truth.
namespace fsdp {

using ComparisonRows = std::vector<ComparisonRow>;
using nlohmann::json;

inline constexpr auto kCpu = DeviceKind::kCpu;
inline constexpr auto kCuda = DeviceKind::kCuda;

// A finished run on a GPU or a CPU, at this speed.
inline ComparisonRow run_at(const std::string& point, double tokens_per_second,
                            DeviceKind device = DeviceKind::kCuda) {
  static int64_t number = 0;
  ComparisonRow row =
      finished_row(++number, point, StrategyKind::kFsdp, 4, 4096 * 1000 / tokens_per_second);
  row.spec.device = device;
  row.step_time_ms_p25 = *row.step_time_ms_median * 0.99;
  row.step_time_ms_p75 = *row.step_time_ms_median * 1.01;
  row.loss_digest = "d" + std::to_string(number);
  row.spec.train.steps = 100;
  return row;
}

inline ComparisonRows runs_at(const std::vector<std::pair<const char*, double>>& speeds,
                              DeviceKind device = DeviceKind::kCuda) {
  ComparisonRows rows;
  for (const auto& [point, speed] : speeds) rows.push_back(run_at(point, speed, device));
  return rows;
}

// A point's repeats.
inline void add_repeats(ComparisonRows& rows, const std::string& point,
                        const std::vector<double>& speeds, DeviceKind device = DeviceKind::kCpu) {
  for (size_t i = 0; i < speeds.size(); ++i) {
    ComparisonRow row = run_at(point + " #" + std::to_string(i), speeds[i], device);
    row.series = point;
    rows.push_back(row);
  }
}

inline ComparisonRows repeated(
    const std::vector<std::pair<const char*, std::vector<double>>>& points,
    DeviceKind device = DeviceKind::kCpu) {
  ComparisonRows rows;
  for (const auto& [point, speeds] : points) add_repeats(rows, point, speeds, device);
  return rows;
}

// Returns the rows after `change`.
inline ComparisonRows with(ComparisonRows rows,
                           const std::function<void(ComparisonRows&)>& change) {
  change(rows);
  return rows;
}

// Returns the rows. The run at `place` waited for CPU time that other processes took.
inline ComparisonRows disturbed(ComparisonRows rows, size_t place) {
  rows[place].cpu_time_others_percent = 40;
  rows[place].run_queue_wait_percent = 60;
  return rows;
}

inline ComparisonRows ended(ComparisonRows rows, size_t place, RunStatus status) {
  rows[place].status = status;
  rows[place].tokens_per_second.reset();
  return rows;
}

inline ComparisonRows with_memory(ComparisonRows rows, const std::vector<int64_t>& mebibytes) {
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].memory_allocated_bytes_max = mebibytes[i] << 20;
  }
  return rows;
}

// Gives the rows the losses of their steps, and a digest that says that all losses are equal.
inline ComparisonRows with_losses(ComparisonRows rows,
                                  const std::vector<std::vector<double>>& losses) {
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].loss_digest = "equal";
    for (size_t step = 0; step < losses[i].size(); ++step) {
      rows[i].losses.push_back({.step = static_cast<int64_t>(step) + 1, .loss = losses[i][step]});
    }
  }
  return rows;
}

inline ComparisonRows doubled(const std::vector<std::pair<int64_t, RunStatus>>& values) {
  ComparisonRows rows;
  for (const auto& [value, status] : values) {
    ComparisonRow row = run_at("FSDP size_per_rank=" + std::to_string(value), 1000);
    row.series = row.point;
    row.family = "family";
    row.family_key = "batch.size_per_rank";
    row.family_value = value;
    row.status = status;
    row.position = 0;
    rows.push_back(row);
  }
  return rows;
}

// Returns the answers to the question, one a line.
inline std::string answer_of(const ComparisonRows& rows, std::string_view question) {
  std::deque<Series> all = series_of(rows);
  put_baselines(all, "");
  put_ratios(all);
  const std::vector<Answer> answers =
      only(answers_for(mapped(all, [](const Series& row) { return &row; })),
           [&](const Answer& answer) { return answer.question == question; });
  return joined_texts(mapped(answers, &Answer::text), "\n");
}

}  // namespace fsdp
