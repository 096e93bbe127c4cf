// Reads the traces that ranks leave in their run's folder. What is returned can be added up safely.
#include "runner/store/trace_file.h"

#include <cstdlib>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/files/gzip.h"
#include "base/text/json.h"
#include "contract/record/run_paths.h"
#include "runner/store/record_files.h"

namespace fsdp {
namespace {

constexpr int64_t kLongestNs = int64_t{1'000'000'000} * 86'400 * 365;
constexpr int64_t kLatestMs = 9'000'000'000'000;  // whose nanoseconds are an int64_t
constexpr int64_t kMostBytes = int64_t{1} << 50;

void require(bool is_so, const char* problem, const std::string& what) {
  if (!is_so) throw std::runtime_error(problem + (": " + what));
}

void check_step(const StepTrace& step, int64_t memory_changes) {
  require(step.begin_unix_ms >= 0 && step.begin_unix_ms <= kLatestMs, "no moment",
          std::to_string(step.begin_unix_ms));
  require(step.memory_changes_before >= 0 && step.memory_changes_before <= memory_changes,
          "no number of changes", std::to_string(step.memory_changes_before));
  for (const TraceSpan& span : step.spans) {
    const bool is_sane =
        std::abs(span.begin_ns) <= kLongestNs && span.time_ns >= 0 && span.time_ns <= kLongestNs;
    if (!is_sane) throw std::runtime_error("no time of a step: " + json_text(span));
  }
}

void check_memory(const std::vector<MemoryChange>& changes) {
  std::map<int64_t, const MemoryChange*> live;
  for (const MemoryChange& change : changes) {
    const auto found = live.find(change.address);
    const bool is_live = found != live.end();
    const bool is_sane =
        change.is_release
            ? is_live && found->second->bytes == change.bytes && found->second->use == change.use
            : !is_live && change.bytes > 0 && change.bytes <= kMostBytes;
    if (!is_sane || change.at_ns < 0 || change.at_ns > kLongestNs) {
      throw std::runtime_error("no change of memory: " + json_text(change));
    }
    if (change.is_release) {
      live.erase(found);
    } else {
      live[change.address] = &change;
    }
  }
}

RankTrace read_trace(const std::filesystem::path& file) {
  try {
    constexpr size_t kLargestText = 256 << 20;
    const std::string text = gunzipped(read_input_file(file, kLargestText), kLargestText);
    auto trace = value_from_json<RankTrace>("", parse_foreign_json(text, kLargestText));
    if (trace.steps.empty()) throw std::runtime_error("it has no step");
    check_memory(trace.memory);
    for (const StepTrace& step : trace.steps) check_step(step, std::ssize(trace.memory));
    return trace;
  } catch (const std::exception& error) {
    throw std::runtime_error(file.string() +
                             " is not what fsdp-train writes there: " + error.what());
  }
}

}  // namespace

RankTraces traces_of(const Store& store, const ComparisonRow& run,
                     const std::filesystem::path& results) {
  RankTraces traces;
  const RunPaths paths(results / run.folder);
  const int attempt = static_cast<int>(run.attempt.value_or(0));
  for (const RunStarted& rank : store.rank_facts(run.run, attempt)) {
    const std::filesystem::path file = paths.trace(attempt, static_cast<int>(rank.rank));
    std::error_code not_there;
    if (std::filesystem::exists(file, not_there)) traces.emplace_back(rank, read_trace(file));
  }
  return traces;
}

std::vector<MemoryMoment> step_memory(const RankTrace& trace) {
  const std::span<const MemoryChange> all = trace.memory;
  if (trace.steps.empty() || all.empty()) return {};
  const auto begin = static_cast<size_t>(trace.steps.front().memory_changes_before);
  const size_t end = trace.steps.size() == 1
                         ? all.size()
                         : static_cast<size_t>(trace.steps[1].memory_changes_before);
  if (end <= begin) return {};
  MemoryByUse before;
  for (const MemoryChange& change : all.first(begin)) {
    before[change.use] += change.is_release ? -change.bytes : change.bytes;
  }
  std::vector<MemoryMoment> timeline = memory_timeline(all.subspan(begin, end - begin));
  for (MemoryMoment& moment : timeline) {
    for (size_t use = 0; use < kMemoryUses; ++use) moment.by_use.bytes[use] += before.bytes[use];
  }
  return timeline;
}

}  // namespace fsdp
