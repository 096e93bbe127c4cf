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

// Returns how far, at least, a starting rank's clock is ahead of its runner's; negative: behind.
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

RunProgress outline_of(const RunRecord& run) {
  return {.point = run.point,
          .ranks = run.spec.strategy.ranks,
          .steps = known_steps(run.spec.train),
          .tokens_of_step = tokens_of_step(run.spec),
          .evaluates_every = run.spec.evaluation.every_steps.value_or(0),
          .checkpoints_every = run.spec.checkpoint.every_steps.value_or(0)};
}

}  // namespace

int64_t known_steps(const TrainSpec& train) {
  const int64_t steps = train.steps.value_or(0);
  return std::min(steps, train.max_steps.value_or(steps));
}

void expect(Progress& progress, const RunRecord& run) { progress.expect(run.id, outline_of(run)); }

void show_start(Progress& progress, const RunRecord& run) {
  progress.started(run.id, outline_of(run));
}

OpenAttempt::OpenAttempt(const RunListeners& listeners, RunRecord run, int attempt)
    : listeners_(listeners),
      run_(std::move(run)),
      attempt_(attempt),
      tail_(RunPaths(listeners.results / run_.folder), attempt,
            static_cast<int>(run_.spec.strategy.ranks), listeners.warn()) {}

void OpenAttempt::read() {
  if (!std::ranges::all_of(given_, &std::vector<Event>::empty)) return;
  given_ = tail_.poll();
  listeners_.progress.add(run_.id, given_, tail_.begun());
}

void OpenAttempt::give() {
  read();
  listeners_.store.ingest(run_.id, attempt_, given_, tail_.skipped_lines());
  tell_of_clocks();
}

void OpenAttempt::ingest() {
  give();
  keep();
}

void OpenAttempt::tell_of_clocks() {
  for (const std::vector<Event>& of_rank : given_) {
    if (told_of_clocks_ || of_rank.empty()) continue;
    const auto* started = std::get_if<RunStarted>(&of_rank.front().body);
    if (started == nullptr) continue;
    const std::vector<AttemptRecord> attempts = listeners_.store.attempts(run_.id);
    const auto own = std::ranges::find(attempts, attempt_, &AttemptRecord::attempt);
    if (own == attempts.end()) continue;
    const int64_t ahead = ahead_ms(of_rank.front(), own->started_unix_ms, now_unix_ms());
    if (std::abs(ahead) < kClockDifferenceMs) continue;
    told_of_clocks_ = true;
    listeners_.progress.warn(fmt::format(
        "{}: the clock of {} is {} s {} its runner's: times of day are off, durations "
        "are not; set it",
        run_.point, started->host, std::abs(ahead) / 1000, ahead > 0 ? "ahead of" : "behind"));
  }
}

void OpenAttempt::ingest_rest() {
  do {
    ingest();
  } while (!tail_.at_end());
}

void OpenAttempt::ingest_all_but_last() {
  if (!given_.empty()) ingest();  // events read before the end of the files was known
  for (read(); !tail_.at_end(); read()) ingest();
}

void OpenAttempt::show_end(const Ending& ending) {
  std::filesystem::path log;
  if (ending.reason_rank >= 0) {
    log = RunPaths(listeners_.results / run_.folder).log(attempt_, ending.reason_rank);
  }
  listeners_.progress.ended(run_.id, ending.status, ending.reason, log);
}

void ingest_rest(Store& store, const std::filesystem::path& results, const RunRecord& run,
                 int attempt, const WarnOfFile& warn) {
  EventTail tail(RunPaths(results / run.folder), attempt, static_cast<int>(run.spec.strategy.ranks),
                 warn);
  do {
    const std::vector<std::vector<Event>> events = tail.poll();
    store.ingest(run.id, attempt, events, tail.skipped_lines());
  } while (!tail.at_end());
}

Ending close_attempt(Store& store, const std::filesystem::path& results, const RunRecord& run,
                     int attempt, const AttemptEnd& end) {
  check_are_there(results);  // inputs may be in it
  const std::vector<RankEnd> ranks = store.rank_ends(run.id, attempt);
  Ending ending = judge(ranks, end);
  const int64_t ended_unix_ms = end.outcome == LaunchOutcome::kUnseen
                                    ? last_event_unix_ms(ranks).value_or(end.ended_unix_ms)
                                    : end.ended_unix_ms;
  const std::optional<std::string> changed =
      end.inputs_compared ? end.changed_input : changed_input(store, run, ended_unix_ms);
  if (changed) {
    set_checkpoints_aside(RunPaths(results / run.folder), attempt);
    ending.status = RunStatus::kFailed;
    ending.reason = *changed +
                    " while the run went on; run it again, with files that stay as they are" +
                    (ending.reason.empty() ? "" : " (" + ending.reason + ")");
  }
  store.end_attempt(run.id, attempt, ending.status, ending.reason, ended_unix_ms,
                    ending.reason_rank);
  return ending;
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

std::string digest_in_state(Store& store, const path& file, const FileState& state) {
  if (const auto known = store.digest(state)) return *known;
  const HashedFile hashed = hash_file(file);
  if (hashed.is_settled) store.remember_digest(hashed.state, hashed.digest);
  return hashed.digest;
}

Input input_now(Store& store, const path& file) {
  try {
    const FileState state = state_of(file);
    return {.file = file, .digest = digest_in_state(store, file, state)};
  } catch (const ConfigError& error) {
    return {.file = file, .problem = error.problem()};
  }
}

// Returns "" if a file that lists others cannot be read.
std::string digest_of(const RunSpec& spec, const std::vector<Input>& inputs) {
  std::map<path, std::string> digests;
  for (const Input& input : inputs) digests[input.file] = input.digest;
  try {
    return data_digest(spec, [&](const path& file) { return digests[file]; });
  } catch (const ConfigError&) {
    return "";
  }
}

// Returns the one input that differs from the plan, if the store remembers its planned contents;
// otherwise all of them.
std::vector<Input> suspects(Store& store, const RunRecord& run, const std::vector<Input>& inputs) {
  std::vector<Input> as_planned = inputs;
  for (Input& input : as_planned) {
    const std::string now = input.digest;
    std::error_code no_such_folder;
    const path canonical = std::filesystem::weakly_canonical(input.file, no_such_folder);
    for (const std::string& earlier : store.digests_of_path(canonical.string())) {
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

// Returns the run's input files. If one that lists others cannot be read, returns this one and the
// files that the specification names.
std::vector<Input> inputs_now(Store& store, const RunSpec& spec) {
  std::vector<Input> inputs;
  std::vector<path> files;
  try {
    for (const auto& [key, file] : input_files(spec)) files.push_back(file);
  } catch (const ConfigError& error) {
    inputs.push_back({.file = error.place(), .problem = error.problem()});
    files = {spec.data.train, spec.data.tokenizer, spec.evaluation.data};
    std::erase(files, path());
  }
  for (const path& file : files) inputs.push_back(input_now(store, file));
  return inputs;
}

}  // namespace

std::string current_digest(Store& store, const path& file) {
  return digest_in_state(store, file, state_of(file));
}

std::optional<std::string> changed_input(Store& store, const RunRecord& run,
                                         std::optional<int64_t> ended_unix_ms) {
  if (run.data_digest.empty()) return std::nullopt;  // planned by a version that kept none
  const std::vector<Input> inputs = inputs_now(store, run.spec);
  if (digest_of(run.spec, inputs) == run.data_digest) return std::nullopt;
  const std::vector<Input> changed = suspects(store, run, inputs);
  const bool all_are_later = std::ranges::all_of(changed, [&](const Input& input) {
    return ended_unix_ms && changed_unix_ms(input.file) > *ended_unix_ms + kClocksDifferMs;
  });
  if (all_are_later) return std::nullopt;
  return names(changed);
}

}  // namespace fsdp
