// Reads the traces that ranks leave in their run's folder. No sum of their figures overflows.
#include "runner/store/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/files/gzip.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "runner/store/record_files.h"

namespace fsdp {
namespace {

constexpr int64_t kLongestNs = int64_t{1'000'000'000} * 86'400;
constexpr int64_t kLatestMs = 9'000'000'000'000;  // whose nanoseconds are an int64_t
constexpr int64_t kMostBytes = int64_t{1} << 50;  // of all live allocations
constexpr size_t kMostSteps = 100;
constexpr size_t kLongestName = 200;

[[noreturn]] void refuse(const std::string& problem) {
  throw std::runtime_error(shortened(problem, kMostOfMessage));
}

bool is_time(int64_t ns) { return ns >= 0 && ns <= kLongestNs; }

void check_step(const StepTrace& step, int64_t memory_changes_before) {
  if (step.step < 0 || step.begin_unix_ms < 0 || step.begin_unix_ms > kLatestMs) {
    refuse(fmt::format("no moment of a step: {}, {}", step.step, step.begin_unix_ms));
  }
  if (step.memory_changes_before < memory_changes_before ||
      step.memory_changes_at_end < step.memory_changes_before) {
    refuse(fmt::format("no numbers of changes: {}, {}", step.memory_changes_before,
                       step.memory_changes_at_end));
  }
  for (const TraceSpan& span : step.spans) {
    const bool is_sane = span.begin_ns >= -kLongestNs && span.begin_ns <= kLongestNs &&
                         is_time(span.time_ns) && span.bytes >= 0 && span.unit.value_or(0) >= 0 &&
                         span.name.size() <= kLongestName;
    if (!is_sane) refuse("no work of a step: " + json_text(span));
  }
}

void check_steps(const RankTrace& trace) {
  if (trace.steps.empty() || trace.steps.size() > kMostSteps) {
    refuse(fmt::format("it has {} steps", trace.steps.size()));
  }
  int64_t memory_changes_before = 0;
  for (const StepTrace& step : trace.steps) {
    check_step(step, memory_changes_before);
    memory_changes_before = step.memory_changes_at_end;
  }
  if (memory_changes_before > std::ssize(trace.memory)) {
    refuse(fmt::format("it has fewer than {} changes of memory", memory_changes_before));
  }
}

void check_memory(const std::vector<MemoryChange>& changes) {
  std::map<int64_t, const MemoryChange*> live;
  int64_t live_bytes = 0;
  for (const MemoryChange& change : changes) {
    const auto found = live.find(change.address);
    const bool is_live = found != live.end();
    const bool is_sane =
        change.is_release
            ? is_live && found->second->bytes == change.bytes && found->second->use == change.use
            : !is_live && change.bytes > 0 && change.bytes <= kMostBytes - live_bytes;
    if (!is_sane || !is_time(change.at_ns)) refuse("no change of memory: " + json_text(change));
    if (change.is_release) {
      live_bytes -= change.bytes;
      live.erase(found);
    } else {
      live_bytes += change.bytes;
      live[change.address] = &change;
    }
  }
}

RankTrace read_trace(const std::filesystem::path& file) {
  try {
    constexpr size_t kLargestText = 64 << 20;
    const std::string text = gunzipped(read_input_file(file, kLargestText), kLargestText);
    auto trace = value_from_json<RankTrace>("", parse_foreign_json(text, kLargestText));
    check_memory(trace.memory);
    check_steps(trace);
    return trace;
  } catch (const std::exception& error) {
    throw std::runtime_error(file.string() + " is not what fsdp-train writes there: " +
                             shortened(error.what(), kMostOfMessage));
  }
}

// Returns how memory rises and falls in the first step; empty: no memory was traced.
std::vector<MemoryMoment> memory_of_first_step(const RankTrace& trace) {
  const std::span<const MemoryChange> all = trace.memory;
  if (trace.steps.empty() || all.empty()) return {};
  const auto begin = static_cast<size_t>(trace.steps.front().memory_changes_before);
  const auto end = static_cast<size_t>(trace.steps.front().memory_changes_at_end);
  MemoryByUse before;
  for (const MemoryChange& change : all.first(begin)) {
    before[change.use] += change.added_bytes();
  }
  std::vector<MemoryMoment> timeline = memory_timeline(all.subspan(begin, end - begin));
  for (MemoryMoment& moment : timeline) {
    for (size_t use = 0; use < kMemoryUses; ++use) moment.by_use.bytes[use] += before.bytes[use];
  }
  return timeline;
}

int64_t peak_bytes(const std::vector<MemoryMoment>& timeline) {
  int64_t peak = 0;
  for (const auto& [allocation, phase, unit, by_use] : timeline) {
    peak = std::max(peak, std::reduce(by_use.bytes.begin(), by_use.bytes.end()));
  }
  return peak;
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

std::vector<MemoryMoment> step_memory(const RankTraces& traces) {
  std::vector<MemoryMoment> fullest;
  for (const auto& [rank, trace] : traces) {
    std::vector<MemoryMoment> timeline = memory_of_first_step(trace);
    if (peak_bytes(timeline) > peak_bytes(fullest)) fullest = std::move(timeline);
  }
  return fullest;
}

}  // namespace fsdp
