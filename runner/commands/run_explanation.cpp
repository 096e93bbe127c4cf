#include "runner/commands/run_explanation.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>

#include "contract/inputs/inputs.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/foreign_json.h"
#include "contract/text/utf8.h"
#include "runner/commands/job_text.h"
#include "runner/commands/local_time.h"
#include "runner/experiment/experiment.h"
#include "runner/launch/rank_variables.h"
#include "runner/launch/shell_quoted.h"

namespace fsdp {
namespace {

constexpr size_t kLogLines = 15;
constexpr ptrdiff_t kMostComparedRuns = 100;
constexpr int kPortByHand = 29500;  // torchrun's

using Keys = std::map<std::string, std::string>;

Keys identity_of(const Store& store, const RunRecord& run) {
  Keys keys;
  std::istringstream lines(identity_keys(store.spec(run.id)));
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    keys.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return keys;
}

struct ChangedKey {
  std::string key;
  std::string before, now;  // "the default" where a key is not given
};

std::vector<ChangedKey> differences(const Keys& before, const Keys& now) {
  std::vector<ChangedKey> found;
  const auto value = [](const Keys& keys, const std::string& key) {
    const auto entry = keys.find(key);
    return entry == keys.end() ? std::string("the default") : entry->second;
  };
  Keys all = before;
  all.insert(now.begin(), now.end());
  for (const auto& [key, ignored] : all) {
    ChangedKey difference{key, value(before, key), value(now, key)};
    if (difference.before != difference.now) found.push_back(std::move(difference));
  }
  return found;
}

std::string attempt_line(const Store& store, const RunRecord& run, const AttemptRecord& attempt) {
  std::string line = "  attempt " + std::to_string(attempt.attempt) + ": started " +
                     local_time(attempt.started_unix_ms) + " on " + attempt.host;
  if (!attempt.slurm_job.empty()) line += ", job " + attempt.slurm_job + " on " + attempt.node_list;
  const std::vector<RunStarted> ranks = store.rank_facts(run.id, attempt.attempt);
  if (!ranks.empty() && ranks.front().resumed_from_step > 0) {
    line += ", resumed from step " + std::to_string(ranks.front().resumed_from_step);
  }
  line += ", " + std::string(name_of(attempt.status));
  if (attempt.ended_unix_ms) line += ' ' + local_time(*attempt.ended_unix_ms);
  if (!attempt.reason.empty()) line += ": " + attempt.reason;
  return visible_line(line) + '\n';
}

std::string what_is_next(const Store& store, const RunRecord& run) {
  if (has_open_job(store, run)) {
    return "It " + std::string(run.status == RunStatus::kRunning ? "runs" : "waits") + " in " +
           visible_line(job_text(*newest_job(store, run))) +
           ", so a call of fsdp-run does not run it again.";
  }
  if (!run.current) {
    return "It left its experiment's list: the file has other runs now.";
  }
  switch (run.status) {
    case RunStatus::kFinished:
    case RunStatus::kOutOfMemory:
      return "It has a result, so a call of fsdp-run skips it; --rerun runs it again.";
    case RunStatus::kRunning:
    case RunStatus::kQueued:
      return "It is under way, or its runner was killed: see fsdp-run status.";
    default:
      return "It has no result, so the next call of fsdp-run runs it.";
  }
}

// As CUDA_VISIBLE_DEVICES has them: those that the newest attempt used, else the first ones.
std::string visible_gpus(const Store& store, const RunRecord& run, const RunSpec& spec) {
  if (spec.device != DeviceKind::kCuda) return "";
  std::string visible;
  const std::vector<RunStarted> ranks = store.rank_facts(run.id, run.attempt);
  for (int64_t rank = 0; rank < spec.strategy.ranks; ++rank) {
    const auto facts = std::ranges::find(ranks, rank, &RunStarted::rank);
    const bool is_known = facts != ranks.end() && facts->gpu.starts_with("gpu:");
    if (rank > 0) visible += ',';
    visible += is_known ? facts->gpu.substr(4) : std::to_string(rank);
  }
  return visible;
}

// Of the same experiment and, if there is one, of the same point, the newest last.
std::vector<RunRecord> earlier_runs(const Store& store, const RunRecord& run) {
  std::vector<RunRecord> earlier = store.runs();
  std::erase_if(earlier, [&](const RunRecord& other) {
    return other.experiment != run.experiment || other.id >= run.id;
  });
  const auto is_of_another_point = [&](const RunRecord& other) { return other.point != run.point; };
  if (!std::ranges::all_of(earlier, is_of_another_point)) {
    std::erase_if(earlier, is_of_another_point);
  }
  std::ranges::sort(earlier, {}, &RunRecord::id);
  if (std::ssize(earlier) > kMostComparedRuns) {
    earlier.erase(earlier.begin(), earlier.end() - kMostComparedRuns);
  }
  return earlier;
}

}  // namespace

std::string explain_status(const Store& store, const RunRecord& run,
                           const std::filesystem::path& results) {
  std::string text(name_of(run.status));
  if (!run.reason.empty()) text += ": " + visible_line(run.reason);
  text.append("\n").append(what_is_next(store, run)).append("\n");
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  if (attempts.empty()) text += "  no attempt was started\n";
  for (const AttemptRecord& attempt : attempts) text += attempt_line(store, run, attempt);
  if (const auto job = newest_job(store, run)) {
    text += "The output of " +
            visible_line(job_text(*job) + ": " + job_output(*job, results).string()) + '\n';
  }
  return text;
}

std::string explain_failure(const Store& store, const RunRecord& run,
                            const std::filesystem::path& results) {
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  const auto failed = std::find_if(attempts.rbegin(), attempts.rend(), [](const auto& attempt) {
    return attempt.reason_rank.has_value();
  });
  if (failed == attempts.rend()) return "";
  const auto log =
      RunPaths(results / run.folder).log(failed->attempt, static_cast<int>(*failed->reason_rank));
  std::ifstream file(log);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > kLogLines) lines.pop_front();
  }
  std::string text = "First cause, in attempt " + std::to_string(failed->attempt) + ": " +
                     visible_line(failed->reason) + "\n  the end of " + visible_line(log.string()) +
                     ":\n";
  for (const std::string& line : lines) text += "  | " + visible_line(line) + '\n';
  return text;
}

std::string explain_identity(const Store& store, const RunRecord& run) {
  const Keys keys = identity_of(store, run);
  std::string text =
      "Identity " + visible_line(run.hash) + ", made of the keys that differ from the defaults:\n";
  for (const auto& [key, value] : keys) text += visible_line("  " + key + ": " + value) + '\n';
  text +=
      "and of the contents of its input files (digest " + visible_line(run.data_digest) + "):\n";
  for (const auto& file : input_files(store.spec(run.id)))
    text += visible_line("  " + file.string()) + '\n';

  std::optional<RunRecord> nearest;
  std::vector<ChangedKey> least;
  for (RunRecord& other : earlier_runs(store, run)) {
    std::vector<ChangedKey> found = differences(identity_of(store, other), keys);
    if (nearest && found.size() > least.size()) continue;
    nearest = std::move(other);
    least = std::move(found);
  }
  if (!nearest) return text + "It is the first of its experiment.\n";
  text += "The nearest earlier run is " + std::to_string(nearest->id) + " (" +
          visible_line(nearest->point) + ", " + std::string(name_of(nearest->status)) +
          "), which differs in ";
  if (least.empty()) {
    const bool same_data = nearest->data_digest == run.data_digest;
    return text + (same_data ? "its name alone.\n" : "the contents of its input files.\n");
  }
  const ChangedKey& first = least.front();
  return text + counted(std::ssize(least), "key") + "; the first: " +
         visible_line(first.key + ", there " + first.before + ", here " + first.now) + ".\n";
}

std::string reproduction(const Store& store, const RunRecord& run, int rank,
                         const std::filesystem::path& results,
                         const std::filesystem::path& trainer) {
  const RunPaths paths(std::filesystem::absolute(results / run.folder).lexically_normal());
  if (!std::filesystem::exists(paths.spec())) return "";
  const RunSpec spec = store.spec(run.id);
  std::map<std::string, std::string> variables;
  const auto recorded = parse_foreign_json(store.provenance(run.id, run.attempt).environment);
  for (const auto& [name, value] : recorded.items()) variables[name] = value.get<std::string>();
  const RankPlace place{.ranks = static_cast<size_t>(spec.strategy.ranks),
                        .port = kPortByHand,
                        .visible_gpus = visible_gpus(store, run, spec)};
  for (const auto& [name, value] : rank_variables(place, static_cast<size_t>(rank))) {
    variables[name] = value;
  }
  std::string command;
  for (const auto& [name, value] : variables) command += name + '=' + shell_quoted(value) + ' ';
  command += shell_quoted(trainer.string()) + " --spec " + shell_quoted(paths.spec().string());
  return visible_line(command) + " --attempt " + std::to_string(first_free_attempt(paths));
}

}  // namespace fsdp
