#include "runner/commands/print_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/system/program.h"
#include "runner/commands/options.h"
#include "runner/series/run_keys.h"
#include "runner/store/list_name.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// Reads the losses of finished runs that must have the same losses as another run. Reads none if
// that would take seconds.
void read_losses(std::vector<ComparisonRow>& rows, const Store& store) {
  constexpr double kMostSteps = 300'000;
  std::map<std::string, std::vector<ComparisonRow*>> must_be_equal;
  for (ComparisonRow& row : rows) {
    const bool is_known = row.status == RunStatus::kFinished && !row.loss_digest.empty();
    if (is_known) must_be_equal[row.loss_digest].push_back(&row);
  }
  std::erase_if(must_be_equal, [](const auto& equal) { return equal.second.size() < 2; });
  double steps = 0;
  for (const auto& [digest, equal] : must_be_equal) {
    for (const ComparisonRow* row : equal) steps += static_cast<double>(row->steps.value_or(0));
  }
  if (steps > kMostSteps) return;
  for (const auto& [digest, equal] : must_be_equal) {
    for (ComparisonRow* row : equal) {
      row->losses = store.losses(row->run, static_cast<int>(*row->attempt));
    }
  }
}

// Reads the uses of memory at the peaks of finished runs.
void read_memory_uses(std::vector<ComparisonRow>& rows, const Store& store) {
  for (ComparisonRow& row : rows) {
    if (row.status != RunStatus::kFinished || row.device != DeviceKind::kCpu) continue;
    const auto peak = store.memory_peak(row.run, static_cast<int>(*row.attempt));
    const bool is_of_row =
        peak && peak->memory_allocated_bytes_max == row.memory_allocated_bytes_max;
    if (is_of_row) row.memory_by_use = peak->by_use;
  }
}

// Names the measured runs that have left their lists, or removes them and notes how to show them.
void put_variants(Report& report, Listed listed) {
  const auto is_variant = [](const ComparisonRow& row) { return !row.current; };
  std::erase_if(report.rows, [&](auto& row) { return is_variant(row) && !row.attempt; });
  const auto count = std::ranges::count_if(report.rows, is_variant);
  if (count == 0) return;
  if (listed == Listed::kNow) {
    std::erase_if(report.rows, is_variant);
    report.notes.push_back(
        fmt::format("Not shown: {} outside the experiment's list, made before the file was edited "
                    "or with another profile. `fsdp-run report --all` shows all runs.",
                    count == 1 ? "1 run" : fmt::format("{} runs", count)));
    return;
  }
  name_variants(report.rows);
  std::map<int64_t, size_t> places;
  for (const ComparisonRow& row : report.rows) places.emplace(row.run, places.size());
  std::erase_if(report.rank_rows, [&](const RankRow& rank) { return !places.contains(rank.run); });
  std::ranges::stable_sort(report.rank_rows, {},
                           [&](const RankRow& rank) { return places.at(rank.run); });
  for (RankRow& rank : report.rank_rows) rank.point = report.rows[places.at(rank.run)].point;
  report.notes.push_back(
      "[...]: what differs in runs that are no longer in the experiment's list.");
}

// Returns the lists of these experiments with overrides, except those that `names` holds.
std::vector<std::string> lists_beside(const Store& store, const std::vector<std::string>& names) {
  std::vector<std::string> lists;
  for (const ExperimentRecord& record : store.experiments()) {
    const std::string plain = experiment_of_list(record.name);
    const bool is_beside = plain != record.name && is_among(names, plain);
    if (is_beside && !is_among(names, record.name)) lists.push_back(record.name);
  }
  return lists;
}

Curve training_loss(const Store& store, const ComparisonRow& run) {
  return thinned(
      mapped(store.losses(run.run, static_cast<int>(*run.attempt)), [](const StepLoss& step) {
        return CurvePoint{.x = static_cast<double>(step.step), .y = step.loss};
      }));
}

// Returns rank 0's loss from the run's first step on. Every rank reports the same loss.
Curve validation_loss(const Store& store, const ComparisonRow& run) {
  std::vector<CurvePoint> points;
  for (const Stretch& stretch : store.stretches(run.run, static_cast<int>(*run.attempt))) {
    for (const auto& event : store.events<EvaluationDone>(run.run, stretch.attempt)) {
      if (event.rank != 0 || event.body.step > stretch.last_step) continue;
      points.push_back({.x = static_cast<double>(event.body.step), .y = event.body.loss});
    }
  }
  return thinned(std::move(points));
}

// Returns a curve per device that reports its utilization, in the order of hosts and names.
std::vector<UtilizationCurve> utilization(const std::vector<Recorded<DeviceSample>>& samples,
                                          int64_t started_unix_ms,
                                          const std::vector<RunStarted>& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<CurvePoint>> points;
  for (const Recorded<DeviceSample>& sample : samples) {
    const double seconds =
        (static_cast<double>(sample.time_unix_ms) - static_cast<double>(started_unix_ms)) / 1000;
    points[{sample.body.host, sample.body.device}].push_back(
        {.x = seconds, .y = sample.body.utilization_percent});
  }
  std::vector<UtilizationCurve> curves;
  for (auto& [device, series] : points) {
    if (std::ranges::none_of(series, [](auto& point) { return point.y.has_value(); })) continue;
    const auto& [host, name] = device;
    const bool own = std::ranges::any_of(
        ranks, [&](const RunStarted& rank) { return rank.host == host && rank.gpu == name; });
    curves.push_back(
        {.host = host, .device = name, .own = own, .percent = thinned(std::move(series))});
  }
  return curves;
}

RunDetail read_run(Store& store, const ComparisonRow& run) {
  RunDetail detail;
  detail.run = run.run;
  detail.specification = store.spec_text(run.run);
  detail.attempts = store.attempts(run.run);
  if (!run.attempt) return detail;
  const int attempt = static_cast<int>(*run.attempt);
  detail.provenance = store.provenance(run.run, attempt);
  detail.rank_facts = store.rank_facts(run.run, attempt);
  for (const auto& checkpoint : store.events<CheckpointDone>(run.run, attempt)) {
    detail.checkpoints.push_back(checkpoint.body.path);
  }
  detail.memory_peak = store.memory_peak(run.run, attempt);
  detail.training_loss = training_loss(store, run);
  detail.validation_loss = validation_loss(store, run);
  const auto shown = std::ranges::find(detail.attempts, attempt, &AttemptRecord::attempt);
  if (shown != detail.attempts.end()) {
    detail.utilization = utilization(store.events<DeviceSample>(run.run, attempt),
                                     shown->started_unix_ms, detail.rank_facts);
  }
  return detail;
}

// Returns the command that runs the list again, from the current folder.
std::string command_again(const ExperimentRecord& list) {
  std::string command = "./fsdp-run " + words_of_file(list.file, list.profile);
  for (const std::string& text : overrides_in(list.name)) {
    const bool is_repeats = text.starts_with("repeats=");
    command += is_repeats ? " --" + text : " --set " + shell_quoted(text);
  }
  return command;
}

}  // namespace

void read_rows(Report& report, const Store& store, const std::vector<std::string>& experiments,
               std::optional<int64_t> since_unix_ms, Listed listed) {
  std::vector<std::string> names = experiments;
  std::vector<std::string> beside = lists_beside(store, experiments);
  if (listed == Listed::kEver)
    std::ranges::move(std::exchange(beside, {}), std::back_inserter(names));
  const std::vector<std::string> every{""};
  for (const std::string& experiment : names.empty() ? every : names) {
    std::ranges::move(store.comparison(experiment, Listed::kEver), std::back_inserter(report.rows));
    if (report.row_kind != RowKind::kRank) continue;
    std::ranges::move(store.comparison_per_rank(experiment, listed),
                      std::back_inserter(report.rank_rows));
  }
  if (since_unix_ms) {
    std::erase_if(report.rows, [&](const ComparisonRow& run) {
      return run.started_unix_ms.value_or(0) < *since_unix_ms;
    });
  }
  put_variants(report, listed);
  if (!beside.empty()) {
    report.notes.push_back(fmt::format(
        "Not shown: {}, made with --set. `fsdp-run report {}` shows {}.", joined_names(beside),
        shell_quoted(beside.front()), beside.size() == 1 ? "it" : "the first"));
  }
  read_losses(report.rows, store);
  read_memory_uses(report.rows, store);
}

void read_html_detail(HtmlDetail& html, Store& store, std::span<const ComparisonRow* const> runs) {
  html.run_count = runs.size();
  std::map<int64_t, size_t> place;
  std::set<std::string> experiments;
  for (const ComparisonRow* run : runs.first(std::min(runs.size(), kMostDetailedRuns))) {
    place[run->run] = html.runs.size();
    experiments.insert(run->experiment);
    html.runs.push_back(read_run(store, *run));
    const std::string& digest = html.runs.back().provenance.experiment_text_digest;
    if (!digest.empty() && !html.experiment_texts.contains(digest)) {
      html.experiment_texts[digest] =
          store.experiment_text(run->run, static_cast<int>(*run->attempt));
    }
  }
  for (ExperimentRecord& experiment : store.experiments()) {
    if (!experiments.contains(experiment.name)) continue;
    html.commands.push_back(command_again(experiment));
    html.experiments.push_back(std::move(experiment));
  }
  for (const std::string& experiment : experiments) {
    for (RankRow& rank : store.comparison_per_rank(experiment, Listed::kEver)) {
      const auto found = place.find(rank.run);
      if (found != place.end() && rank.rank) {
        html.runs[found->second].ranks.push_back(std::move(rank));
      }
    }
  }
}

}  // namespace fsdp
