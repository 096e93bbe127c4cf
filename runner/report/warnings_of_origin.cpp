#include <algorithm>
#include <functional>
#include <map>

#include "runner/report/names.h"
#include "runner/report/warning_checks.h"

namespace fsdp {
namespace {

// "1 GPU: a1b2; 4xDDP, 4xFSDP: c3d4" when there are several values; runs without one do not count.
std::optional<std::string> different(
    const Runs& runs, const std::function<std::string(const ComparisonRow&)>& value_of) {
  constexpr size_t kMostShown = 4;
  std::map<std::string, Runs> by_value;
  std::vector<std::string> order;
  for (const ComparisonRow* run : runs) {
    const std::string value = value_of(*run);
    if (value.empty()) continue;
    Runs& same = by_value[value];
    if (same.empty()) order.push_back(value);
    same.push_back(run);
  }
  if (order.size() < 2) return std::nullopt;
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kMostShown); ++i) {
    if (i > 0) text += "; ";
    text += points_of(by_value[order[i]]) + ": " + order[i];
  }
  if (order.size() > kMostShown) {
    text += "; and " + std::to_string(order.size() - kMostShown) + " others";
  }
  return text;
}

std::string short_digest(const std::string& digest) { return digest.substr(0, 8); }

// Only where an experiment compares losses; where it compares throughput these are columns.
Runs runs_compared_by_loss(Rows rows) {
  Runs runs = started_runs(rows);
  std::erase_if(runs, [](auto* run) { return run->compare == "throughput"; });
  return runs;
}

constexpr const char* kCompareRemedy =
    ", or write compare: throughput at the top of the experiment if that is its purpose";

}  // namespace

std::optional<std::string> different_commit(Rows rows) {
  const auto what = different(started_runs(rows), [](const ComparisonRow& run) {
    if (run.git_commit.empty()) return std::string();
    return short_digest(run.git_commit) + (run.git_dirty.value_or(false) ? " with changes" : "");
  });
  if (!what) return std::nullopt;
  return "rows were run from different commits (" + *what +
         "); run them again from one, with --rerun";
}

std::optional<std::string> different_trainer(Rows rows) {
  const auto what = different(started_runs(rows), [](const ComparisonRow& run) {
    return short_digest(run.trainer_digest);
  });
  if (!what) return std::nullopt;
  return "rows were run by different trainers, by their binaries' digests (" + *what +
         "); run them again with one build, with --rerun";
}

std::optional<std::string> different_versions(Rows rows) {
  const auto what = different(started_runs(rows), [](const ComparisonRow& run) {
    if (run.torch_version.empty()) return std::string();
    std::string text = "torch " + run.torch_version;
    if (!run.cuda_version.empty()) text += ", CUDA " + run.cuda_version;
    if (!run.driver_version.empty()) text += ", driver " + run.driver_version;
    return text;
  });
  if (!what) return std::nullopt;
  return "rows were run with different libraries (" + *what +
         "); run them again with one installation, with --rerun";
}

std::optional<std::string> different_device(Rows rows) {
  const auto what =
      different(started_runs(rows), [](const ComparisonRow& run) { return run.device_name; });
  if (!what) return std::nullopt;
  return "rows were run on different devices (" + *what +
         "); run them again on one kind, with --rerun, or tell them apart with --group device_name";
}

std::optional<std::string> different_data(Rows rows) {
  const auto what = different(
      started_runs(rows), [](const ComparisonRow& run) { return short_digest(run.data_digest); });
  if (!what) return std::nullopt;
  return "rows read different input files, by the digests of their contents (" + *what +
         "); give them one data set and model, or tell them apart with --group data_digest";
}

std::optional<std::string> different_total_batch(Rows rows) {
  const auto what = different(runs_compared_by_loss(rows), [](const ComparisonRow& run) {
    return std::to_string(run.total_batch);
  });
  if (!what) return std::nullopt;
  return "losses are of different total batches (" + *what + "); give all rows one batch.total" +
         kCompareRemedy;
}

std::optional<std::string> different_steps(Rows rows) {
  const auto what = different(runs_compared_by_loss(rows), [](const ComparisonRow& run) {
    return run.steps_planned ? std::to_string(*run.steps_planned) : "";
  });
  if (!what) return std::nullopt;
  return "losses are after different numbers of steps (" + *what +
         "); give all rows the same train.steps" + kCompareRemedy;
}

std::optional<std::string> lost_events(Rows rows) {
  Runs runs = started_runs(rows);
  std::erase_if(runs, [](auto* run) { return run->skipped_lines == 0; });
  if (runs.empty()) return std::nullopt;
  int64_t lines = 0;
  for (const ComparisonRow* run : runs) lines += run->skipped_lines;
  return std::to_string(lines) + (lines == 1 ? " line" : " lines") +
         " of what ranks reported could not be read: figures lack what they said: " +
         points_of(runs) + "; run these again with --rerun";
}

}  // namespace fsdp
