#include "runner/run/attempt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <ranges>
#include <vector>

#include "base/files/file_digest.h"
#include "base/text/config_error.h"
#include "contract/record/run_paths.h"
#include "formats/inputs/inputs.h"
#include "runner/experiment/experiment.h"

namespace fsdp {
namespace {

// Synchronized clocks differ by less than this.
constexpr int64_t kClockDifferenceMs = 5'000;

// Returns the least time by which a rank's clock must be ahead of its runner's; negative: behind.
// The rank cannot have started before its attempt, nor written its event later than now.
int64_t ahead_ms(const Event& start, int64_t attempt_started_unix_ms, int64_t now_unix_ms) {
  const int64_t process_started = start.time_unix_ms - start.elapsed_ms.value_or(0);
  if (start.time_unix_ms > now_unix_ms) return start.time_unix_ms - now_unix_ms;
  return std::min<int64_t>(0, process_started - attempt_started_unix_ms);
}

double tokens_of_step(const RunSpec& spec) {
  const int64_t at_once = spec.device == DeviceKind::kCuda ? spec.strategy.ranks : 1;
  return static_cast<double>(total_batch(spec)) / static_cast<double>(at_once) *
         static_cast<double>(spec.data.sequence_length);
}

// Returns 0 if only the trainer knows the steps, from the training set.
int64_t known_steps(const TrainSpec& train) {
  const int64_t steps = train.steps.value_or(0);
  return std::min(steps, train.max_steps.value_or(steps));
}

RunProgress outline_of(const RunRecord& run) {
  return {.point = run.point,
          .ranks = run.spec.strategy.ranks,
          .steps = known_steps(run.spec.train),
          .tokens_of_step = tokens_of_step(run.spec),
          .evaluates_every = run.spec.evaluation.every_steps.value_or(0),
          .checkpoints_every = run.spec.checkpoint.every_steps.value_or(0)};
}

}  // namespace

void expect(Progress& progress, const RunRecord& run) { progress.expect(run.id, outline_of(run)); }

void show_start(Progress& progress, const RunRecord& run) {
  progress.started(run.id, outline_of(run));
}

OpenAttempt::OpenAttempt(Progress& progress, const std::filesystem::path& results, RunRecord run,
                         int attempt, int64_t started_unix_ms)
    : progress_(progress),
      paths_(results / run.folder),
      run_(std::move(run)),
      attempt_(attempt),
      started_unix_ms_(started_unix_ms),
      tail_(paths_, attempt, static_cast<int>(run_.spec.strategy.ranks),
            [&progress](const std::string& line) { progress.warn(line); }),
      reports_({.ranks = run_.spec.strategy.ranks}) {}

std::vector<std::vector<Event>> OpenAttempt::read() {
  std::vector<std::vector<Event>> events = tail_.poll();
  reports_.add(events);
  progress_.add(run_.id, reports_, tail_.begun(), events.front());
  warn_of_clocks(events);
  return events;
}

void OpenAttempt::warn_of_clocks(std::span<const std::vector<Event>> events_of_ranks) {
  for (const std::vector<Event>& of_rank : events_of_ranks) {
    if (warned_of_clocks_ || of_rank.empty()) continue;
    const auto* started = std::get_if<RunStarted>(&of_rank.front().body);
    if (started == nullptr) continue;
    const int64_t ahead = ahead_ms(of_rank.front(), started_unix_ms_, fsdp::now_unix_ms());
    if (std::abs(ahead) < kClockDifferenceMs) continue;
    warned_of_clocks_ = true;
    progress_.warn(fmt::format(
        "{}: the clock of {} is {} s {} its runner's: times of day are wrong, durations are right; "
        "set the clock",
        run_.point, started->host, std::abs(ahead) / 1000, ahead > 0 ? "ahead of" : "behind"));
  }
}

void OpenAttempt::show_end(const Verdict& verdict) {
  std::filesystem::path log;
  if (verdict.reason_rank >= 0) log = paths_.log(attempt_, verdict.reason_rank);
  progress_.ended(run_.id, verdict.status, verdict.reason, log);
}

Verdict judge_and_check_inputs(const std::filesystem::path& results, const RunRecord& run,
                               int attempt, std::span<const RankState> ranks, FileDigests& digests,
                               AttemptEnd& end) {
  if (end.outcome == LaunchOutcome::kUnseen) {
    end.ended_unix_ms = last_event_unix_ms(ranks).value_or(end.ended_unix_ms);
  }
  Verdict verdict = judge(ranks, end);
  check_are_there(results);  // inputs may be in the folder
  const RunPaths paths(results / run.folder);
  if (!end.inputs_compared) {
    // The clock of the runner may be behind the one that gives files their times.
    const int64_t ended_unix_ms =
        std::max(end.ended_unix_ms, last_write_unix_ms(paths.attempt(attempt)));
    const auto changed = changed_input(digests, run, ended_unix_ms);
    check_are_there(results);
    end.changed_input = changed;
    end.inputs_compared = true;
  }
  if (!end.changed_input) return verdict;
  set_checkpoints_aside(paths, attempt);
  verdict.status = RunStatus::kFailed;
  verdict.reason =
      fmt::format("{} during the run; run it again, and leave its input files unchanged{}",
                  *end.changed_input, verdict.reason.empty() ? "" : " (" + verdict.reason + ")");
  return verdict;
}

Verdict close_attempt(Store& store, const std::filesystem::path& results, const RunRecord& run,
                      int attempt, std::span<const RankState> ranks, AttemptEnd end) {
  FileDigests digests(store, run.spec);
  const Verdict verdict = judge_and_check_inputs(results, run, attempt, ranks, digests, end);
  for (const auto& [state, digest] : digests.computed()) store.remember_digest(state, digest);
  store.end_attempt(run.id, attempt, verdict.status, verdict.reason, verdict.ended_unix_ms,
                    verdict.reason_rank);
  return verdict;
}

namespace {

using std::filesystem::path;

// The clocks of a job's node, of this host and of a file server differ by less than this.
constexpr int64_t kClocksDifferMs = 60'000;

// Returns when the file was changed last; for a deleted file, when the nearest existing folder was.
int64_t changed_unix_ms(path file) {
  struct stat status {};
  while (stat(file.c_str(), &status) != 0 && file.has_relative_path()) file = file.parent_path();
  return status.st_ctim.tv_sec * 1000 + status.st_ctim.tv_nsec / 1'000'000;
}

// The present state of an input file.
struct Input {
  path file;
  std::string digest{};  // empty: it cannot be read
  std::string problem = "changed";
};

Input input_now(FileDigests& digests, const path& file) {
  try {
    return {.file = file, .digest = digests.current(file)};
  } catch (const ConfigError& error) {
    return {.file = file, .problem = error.problem()};
  }
}

// Returns "" if an input file that lists other input files cannot be read.
std::string digest_of(const RunSpec& spec, const std::vector<Input>& inputs) {
  std::map<path, std::string> digests;
  for (const Input& input : inputs) digests[input.file] = input.digest;
  try {
    return data_digest(spec, [&](const path& file) { return digests[file]; });
  } catch (const ConfigError&) {
    return "";
  }
}

// Returns the one input that differs from the plan, if its planned contents are remembered;
// otherwise all of them.
std::vector<Input> suspects(const FileDigests& digests, const RunRecord& run,
                            const std::vector<Input>& inputs) {
  std::vector<Input> as_planned = inputs;
  for (Input& input : as_planned) {
    const std::string now = input.digest;
    std::error_code no_such_folder;
    const path canonical = std::filesystem::weakly_canonical(input.file, no_such_folder);
    for (const std::string& earlier : digests.of_path(canonical.string())) {
      input.digest = earlier;
      if (digest_of(run.spec, as_planned) == run.data_digest) return {input};
    }
    input.digest = now;
  }
  return inputs;
}

// Names the first input that cannot be read, else all inputs.
std::string names(const std::vector<Input>& inputs) {
  constexpr size_t kMostNames = 4;
  const auto gone =
      std::ranges::find_if(inputs, [](const Input& each) { return each.digest.empty(); });
  if (gone != inputs.end()) return gone->file.string() + " " + gone->problem;
  if (inputs.size() == 1) return inputs.front().file.string() + " changed";
  const auto name = [](const Input& input) { return input.file.string(); };
  return fmt::format(
      "one of its input files ({}{}) changed",
      fmt::join(inputs | std::views::take(kMostNames) | std::views::transform(name), ", "),
      inputs.size() > kMostNames ? ", ..." : "");
}

// Returns the run's input files. If a file that lists other input files cannot be read, returns
// this file and the files that the specification names.
std::vector<Input> inputs_now(FileDigests& digests, const RunSpec& spec) {
  std::vector<Input> inputs;
  std::vector<path> files;
  try {
    for (const auto& [key, file] : input_files(spec)) files.push_back(file);
  } catch (const ConfigError& error) {
    inputs.push_back({.file = error.place(), .problem = error.problem()});
    files = {spec.data.train, spec.data.tokenizer, spec.evaluation.data};
    std::erase(files, path());
  }
  for (const path& file : files) inputs.push_back(input_now(digests, file));
  return inputs;
}

}  // namespace

void FileDigests::take(const Store& store, const RunSpec& spec) {
  std::vector<path> files;
  try {
    for (const auto& [key, file] : input_files(spec)) files.push_back(file);
  } catch (const ConfigError&) {  // changed_input() reports this
  }
  for (const path& file : files) take(store, file);
}

void FileDigests::take(const Store& store, const path& file) {
  std::error_code gone;
  const FileState any{.path = std::filesystem::weakly_canonical(file, gone).string()};
  if (!of_path(any.path).empty()) return;  // already taken, for another run
  for (const std::string& digest : store.digests_of_path(any.path)) add({any, digest});
  try {
    const FileState now = state_of(file);
    if (const auto digest = store.digest(now)) add({now, *digest});
  } catch (const ConfigError&) {  // changed_input() reports this
  }
}

void FileDigests::add(const KnownFile& file) {
  if (std::ranges::find(known_, file) == known_.end()) known_.push_back(file);
}

std::vector<std::string> FileDigests::of_path(const std::string& path) const {
  std::vector<std::string> digests;
  for (const auto& [state, digest] : known_) {
    if (state.path == path) digests.push_back(digest);
  }
  return digests;
}

std::string FileDigests::current(const path& file) {
  FileState now = state_of(file);
  for (const auto& [state, digest] : known_) {
    now.link_count = state.link_count;  // does not depend on the contents
    if (now == state) return digest;
  }
  const HashedFile hashed = hash_file(file);
  if (hashed.is_settled) {
    add({hashed.state, hashed.digest});
    computed_.push_back(known_.back());
  }
  return hashed.digest;
}

std::optional<std::string> changed_input(FileDigests& digests, const RunRecord& run,
                                         std::optional<int64_t> ended_unix_ms) {
  if (run.data_digest.empty()) return std::nullopt;  // planned by a version without digests
  const std::vector<Input> inputs = inputs_now(digests, run.spec);
  if (digest_of(run.spec, inputs) == run.data_digest) return std::nullopt;
  const std::vector<Input> changed = suspects(digests, run, inputs);
  const bool all_are_later = std::ranges::all_of(changed, [&](const Input& input) {
    return ended_unix_ms && changed_unix_ms(input.file) > *ended_unix_ms + kClocksDifferMs;
  });
  if (all_are_later) return std::nullopt;
  return names(changed);
}

}  // namespace fsdp
