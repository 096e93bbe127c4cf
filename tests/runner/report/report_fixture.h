#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "runner/report/report.h"

// Made-up rows, as the store returns them.
namespace fsdp {

inline constexpr int64_t kGibibyte = int64_t{1} << 30;

inline ComparisonRow finished_row(int64_t run, const std::string& point, StrategyKind strategy,
                                  int64_t ranks, double step_time_ms) {
  ComparisonRow row;
  row.experiment = "lab";
  row.run = run;
  row.hash8 = "0123abcd";
  row.position = run - 1;
  row.point = point;
  row.series = point;
  row.spec.strategy.kind = strategy;
  row.spec.strategy.ranks = ranks;
  row.spec.batch.size_per_rank = 4;
  row.spec.batch.gradient_accumulation_steps = 4 / ranks;
  row.spec.batch.total = 16;
  row.spec.device = DeviceKind::kCpu;
  row.spec.data.sequence_length = 256;
  row.spec.train.warmup_steps_excluded = 2;
  row.folder = "runs/lab/point-0123abcd";
  row.attempt = 1;
  row.status = RunStatus::kFinished;
  row.device_name = "a processor";
  row.resumed_from_step = 0;
  row.steps = 100;
  row.skipped_steps = 0;
  row.non_finite_steps = 0;
  row.step_time_ms_median = step_time_ms;
  row.step_time_ms_p25 = step_time_ms - 1.25;
  row.step_time_ms_p75 = step_time_ms + 2;
  row.steps_per_second = 1000 / step_time_ms;
  row.micro_batches_per_second = 4000 / step_time_ms;
  row.tokens_per_second = 4096 * 1000 / step_time_ms;
  row.memory_allocated_bytes_max = 3 * kGibibyte;
  row.memory_allocated_bytes_min = 3 * kGibibyte;
  row.memory_reserved_bytes_max = 4 * kGibibyte;
  row.memory_reserved_bytes_min = 4 * kGibibyte;
  row.loss_first = 6.931471805599453;
  row.loss_last = 2.5;
  row.total_time_ms = 83'456;
  row.start_up_time_ms = 1'234.5;
  return row;
}

inline Report lab_report() {
  Report report;
  report.title = "A lab, with | and \"quotes\"";
  report.results = "results";
  report.rows = {finished_row(1, "1 GPU", StrategyKind::kSingle, 1, 512.5),
                 finished_row(2, "4×DDP", StrategyKind::kDdp, 4, 205),
                 finished_row(3, "FSDP, batch 8 実験", StrategyKind::kFsdp, 4, 99.95),
                 finished_row(4, "offload", StrategyKind::kFsdp, 4, 30),
                 finished_row(5, "does not fit", StrategyKind::kFsdp, 4, 30),
                 {}};
  report.rows[2].memory_allocated_bytes_max = kGibibyte + kGibibyte / 4;
  report.rows[2].memory_allocated_bytes_min = kGibibyte;
  report.rows[3].spec.strategy.offload = Offload::kOptimizer;
  report.rows[3].status = RunStatus::kFailed;
  report.rows[3].reason = "rank 2 killed by signal 9";
  report.rows[3].reason_rank = 2;
  report.rows[3].loss_last.reset();

  ComparisonRow& no_room = report.rows[4];
  no_room.status = RunStatus::kOutOfMemory;
  no_room.reason = "rank 0: 79.0 GiB are all in use, 1.2 GiB asked for";
  no_room.steps = 0;
  for (auto* figure :
       {&no_room.step_time_ms_median, &no_room.step_time_ms_p25, &no_room.step_time_ms_p75,
        &no_room.steps_per_second, &no_room.micro_batches_per_second, &no_room.tokens_per_second,
        &no_room.loss_first, &no_room.loss_last, &no_room.start_up_time_ms}) {
    figure->reset();
  }
  report.rows[5].experiment = "lab";
  report.rows[5].run = 6;
  report.rows[5].position = 5;
  report.rows[5].point = "not yet";
  report.rows[5].spec.batch.size_per_rank = 4;
  report.rows[5].spec.batch.gradient_accumulation_steps = 4;
  report.notes = {"A note of the caller's."};
  return report;
}

// Runs with features that the lab does not use.
inline Report training_report() {
  Report report;
  report.results = "results";
  report.rows = {finished_row(1, "plain", StrategyKind::kFsdp, 2, 100),
                 finished_row(2, "evaluated", StrategyKind::kFsdp, 2, 100),
                 finished_row(3, "resumed", StrategyKind::kFsdp, 4, 100)};
  ComparisonRow& evaluated = report.rows[1];
  evaluated.spec.strategy.sharding = Sharding::kShardGradOp;
  evaluated.spec.strategy.wrap.blocks = 2;
  evaluated.spec.strategy.prefetch = 2;
  evaluated.spec.strategy.limit_all_gathers = false;
  evaluated.spec.precision.kind = PrecisionKind::kBf16Mixed;
  evaluated.spec.optimizer.kind = OptimizerKind::kSgd;
  evaluated.spec.schedule.kind = ScheduleKind::kCosine;
  evaluated.skipped_steps = 3;
  evaluated.non_finite_steps = 1;
  evaluated.validation_loss_first = 5.25;
  evaluated.validation_loss_last = 3.125;
  evaluated.validation_loss_best = 3;
  evaluated.token_accuracy_last = 0.3125;
  evaluated.checkpoint_write_time_ms_median = 1'500;
  ComparisonRow& resumed = report.rows[2];
  resumed.spec.strategy.sharding = Sharding::kHybridShard;
  resumed.spec.strategy.shard_group_size = 2;
  resumed.spec.strategy.offload = Offload::kParameters;
  resumed.resumed_from_step = 20;
  resumed.validation_loss_first = 4;
  resumed.validation_loss_last = 3.5;
  resumed.validation_loss_best = 3.5;
  resumed.token_accuracy_last = 1;
  return report;
}

inline Report per_rank_report() {
  Report report = lab_report();
  report.row_kind = RowKind::kRank;
  for (int64_t rank = 0; rank < 2; ++rank) {
    RankRow row;
    row.experiment = "lab";
    row.run = 2;
    row.position = 1;
    row.point = "4×DDP";
    row.attempt = 1;
    row.status = RunStatus::kFinished;
    row.rank = rank;
    row.host = "node1";
    row.device = "cuda:" + std::to_string(rank);
    row.device_name = "a GPU";
    row.steps = 100;
    row.step_time_ms_median = 12.25 + static_cast<double>(rank);
    row.memory_allocated_bytes_forward = (rank + 2) * kGibibyte;
    row.memory_reserved_bytes_forward = (rank + 4) * kGibibyte;
    row.memory_allocated_bytes_max = (rank + 3) * kGibibyte;
    row.memory_reserved_bytes_max = (rank + 5) * kGibibyte;
    report.rank_rows.push_back(row);
  }
  return report;
}

// Compares with tests/golden/<name>. With UPDATE_GOLDEN=1 in the environment it writes the file
// instead: look at its diff before you commit it.
inline void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(FSDP_GOLDEN_FOLDER) + "/" + name;
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update && std::string_view(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  INFO(path);
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::stringstream expected;
  expected << file.rdbuf();
  CHECK(text == expected.str());
}

// Compares the report with tests/golden/<name>.<extension> in each of these formats.
inline void check_golden_formats(const std::string& name, const Report& report,
                                 const std::vector<Format>& formats) {
  const std::map<Format, const char*> extensions{{Format::kTable, ".txt"},
                                                 {Format::kMarkdown, ".md"},
                                                 {Format::kCsv, ".csv"},
                                                 {Format::kJson, ".json"},
                                                 {Format::kLatex, ".tex"}};
  for (const Format format : formats) {
    check_golden(name + extensions.at(format), render(format, report));
  }
}

// The report as a terminal shows it.
inline std::string table_of(const Report& report) { return render(Format::kTable, report); }

// The rows as programs read them.
inline nlohmann::json json_rows(const Report& report) {
  return nlohmann::json::parse(render(Format::kJson, report))["rows"];
}

}  // namespace fsdp
