#include "runner/commands/run_details.h"

#include <algorithm>
#include <set>
#include <utility>

namespace fsdp {
namespace {

Curve training_loss(const Store& store, const ComparisonRow& run) {
  std::vector<CurvePoint> points;
  for (const auto& [step, loss] : store.losses(run.run, static_cast<int>(*run.attempt))) {
    points.push_back({.x = static_cast<double>(step), .y = loss});
  }
  return thinned(std::move(points));
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
  detail.training_loss = training_loss(store, run);
  detail.validation_loss = validation_loss(store, run);
  const auto shown = std::ranges::find(detail.attempts, attempt, &AttemptRecord::attempt);
  if (shown != detail.attempts.end()) {
    detail.utilization = utilization(store.events<DeviceSample>(run.run, attempt),
                                     shown->started_unix_ms, detail.rank_facts);
  }
  return detail;
}

}  // namespace

HtmlDetail read_html_detail(Store& store, std::span<const ComparisonRow* const> runs) {
  HtmlDetail html;
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
    if (experiments.contains(experiment.name)) html.experiments.push_back(std::move(experiment));
  }
  for (const std::string& experiment : experiments) {
    for (RankRow& rank : store.comparison_per_rank(experiment, Listed::kEver)) {
      const auto found = place.find(rank.run);
      if (found != place.end() && rank.rank) {
        html.runs[found->second].ranks.push_back(std::move(rank));
      }
    }
  }
  return html;
}

}  // namespace fsdp
