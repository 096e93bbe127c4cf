#include <algorithm>
#include <cmath>
#include <deque>
#include <fstream>
#include <iostream>
#include <memory>
#include <ranges>
#include <sstream>

#include "base/system/program.h"
#include "base/text/bytes_text.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "runner/answers/why.h"
#include "runner/cluster/queue.h"
#include "runner/commands/console.h"
#include "runner/commands/differences.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/host/provenance.h"
#include "runner/progress/run_progress.h"
#include "runner/report/report.h"
#include "runner/run/local_launcher.h"
#include "runner/store/list_name.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

constexpr size_t kLogLines = 15;
constexpr size_t kMostComparedRuns = 100;
constexpr int kPortByHand = 29500;  // torchrun's

struct ExplainArguments {
  std::string word;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

KeysAndValues identity_of(const Store& store, const RunRecord& run) {
  KeysAndValues keys;
  std::istringstream lines(identity_keys(store.spec(run.id)));
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    keys.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  std::ranges::sort(keys);
  return keys;
}

std::string attempt_line(const Store& store, const RunRecord& run, const AttemptRecord& attempt) {
  std::string line = fmt::format("  attempt {}: started {} on {}", attempt.attempt,
                                 local_time(attempt.started_unix_ms), attempt.host);
  if (!attempt.slurm_job.empty()) {
    line += fmt::format(", job {} on {}", attempt.slurm_job, attempt.node_list);
  }
  const std::vector<RunStarted> ranks = store.rank_facts(run.id, attempt.attempt);
  if (!ranks.empty() && ranks.front().resumed_from_step > 0) {
    line += fmt::format(", resumed from step {}", ranks.front().resumed_from_step);
  }
  line += fmt::format(", {}", name_of(attempt.status));
  if (attempt.ended_unix_ms) line += ' ' + local_time(*attempt.ended_unix_ms);
  if (!attempt.reason.empty()) line += ": " + attempt.reason;
  return visible_line(line) + '\n';
}

std::string what_is_next(const Store& store, const RunRecord& run) {
  if (!run.source.empty()) {
    return fmt::format("It was merged from {}, and runs there only.", visible_line(run.source));
  }
  if (has_open_job(store, run)) {
    return fmt::format("It {} in {}, so a call of fsdp-run does not run it again.",
                       run.status == RunStatus::kRunning ? "runs" : "waits",
                       visible_line(job_text(*newest_job(store, run))));
  }
  if (!run.current) {
    return "It is no longer in its experiment's list: the file has other runs now.";
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

// Returns the GPUs that the newest attempt used, else the first ones, for CUDA_VISIBLE_DEVICES.
std::string visible_gpus(const Store& store, const RunRecord& run, const RunSpec& spec) {
  if (spec.device != DeviceKind::kCuda) return "";
  std::vector<std::string> gpus;
  const std::vector<RunStarted> ranks = store.rank_facts(run.id, run.attempt);
  for (int64_t rank = 0; rank < spec.strategy.ranks; ++rank) {
    const auto facts = std::ranges::find(ranks, rank, &RunStarted::rank);
    const bool is_known = facts != ranks.end() && facts->gpu.starts_with("gpu:");
    gpus.push_back(is_known ? facts->gpu.substr(4) : std::to_string(rank));
  }
  return fmt::to_string(fmt::join(gpus, ","));
}

// Returns earlier runs of the experiment, with any overrides. The same point comes first, then the
// newest run.
std::vector<RunRecord> earlier_runs(const Store& store, const RunRecord& run) {
  std::vector<RunRecord> earlier = store.runs();
  std::erase_if(earlier, [&](const RunRecord& other) {
    return experiment_of_list(other.experiment) != experiment_of_list(run.experiment) ||
           other.id >= run.id;
  });
  std::ranges::sort(earlier, {}, [&](const RunRecord& other) {
    return std::pair(other.point != run.point, -other.id);
  });
  if (earlier.size() > kMostComparedRuns)
    earlier.erase(earlier.begin() + kMostComparedRuns, earlier.end());
  return earlier;
}

// Tells the run's status, what the next call of fsdp-run does with it, its attempts and its job.
std::string explain_status(const Store& store, const RunRecord& run,
                           const std::filesystem::path& results) {
  std::string text(name_of(run.status));
  if (!run.reason.empty()) text += ": " + visible_line(run.reason);
  text.append("\n").append(what_is_next(store, run)).append("\n");
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  if (attempts.empty()) text += "  no attempt was started\n";
  for (const AttemptRecord& attempt : attempts) text += attempt_line(store, run, attempt);
  if (const auto job = newest_job(store, run)) {
    text +=
        "The output of " + visible_line(job_text(*job) + ": " + job_output(*job, results)) + '\n';
  }
  return text;
}

// Returns the newest reason that is about a rank, and the end of this rank's log. "" if no attempt
// has such a reason.
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
  std::string text = fmt::format("First cause, in attempt {}: {}\n  {} {}{}\n", failed->attempt,
                                 visible_line(failed->reason),
                                 lines.empty() ? "there is nothing in" : "the end of",
                                 visible_line(log.string()), lines.empty() ? "" : ":");
  for (const std::string& line : lines) text += "  | " + visible_line(line) + '\n';
  return text + '\n';
}

// Tells what a run that was out of memory had on the rank with the most. "" if it is not known.
std::string explain_memory(const Store& store, const RunRecord& run, const RunSpec& spec) {
  constexpr size_t kMostParts = 5;
  const std::optional<MemoryPeak> peak = store.memory_peak(run.id, run.attempt);
  if (run.status != RunStatus::kOutOfMemory || !peak) return "";
  if (peak->memory_allocated_bytes_max == 0) return "";  // the first allocation was too large
  const Explained figures{.allocated_bytes = static_cast<double>(peak->memory_allocated_bytes_max),
                          .uses = peak->by_use,
                          .is_sharded = spec.strategy.kind == StrategyKind::kFsdp};
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : memory_parts(figures) | std::views::take(kMostParts)) {
    if (bytes > 0) texts.push_back(bytes_text(std::llround(bytes)) + ' ' + name);
  }
  return visible_line(fmt::format("The tensors of a rank took {} at most, in {}: {}.",
                                  bytes_text(peak->memory_allocated_bytes_max), peak->moment(),
                                  fmt::join(texts, ", "))) +
         "\n\n";
}

// Tells the parts of the run's identity, and the first key that differs from the nearest earlier
// run: the one with the fewest differences, of the same point if there is one.
std::string explain_identity(const Store& store, const RunRecord& run) {
  const KeysAndValues keys = identity_of(store, run);
  std::string text = fmt::format("Identity {}, made of the keys that differ from the defaults:\n",
                                 visible_line(run.hash));
  for (const auto& [key, value] : keys) text += visible_line("  " + key + ": " + value) + '\n';
  text += fmt::format("and of the contents of its input files (digest {}):\n",
                      visible_line(run.data_digest));
  for (const auto& [key, file] : input_files(store.spec(run.id))) {
    text += visible_line("  " + file.string()) + '\n';
  }
  std::optional<RunRecord> nearest;
  std::vector<Difference> least;
  for (RunRecord& other : earlier_runs(store, run)) {
    std::vector<Difference> found = differences(identity_of(store, other), keys);
    const bool is_farther = nearest && nearest->point == run.point && other.point != run.point;
    if (is_farther || (nearest && found.size() >= least.size())) continue;
    nearest = std::move(other);
    least = std::move(found);
  }
  if (!nearest) return text + "It is the first of its experiment.\n";
  text += fmt::format("The nearest earlier run is {} ({}, {}), which differs in ", nearest->id,
                      visible_line(nearest->point), name_of(nearest->status));
  if (least.empty()) {
    const bool same_data = nearest->data_digest == run.data_digest;
    return text + (same_data ? "its name alone.\n" : "the contents of its input files.\n");
  }
  const Difference& first = *std::ranges::min_element(least, {}, &Difference::key);
  const std::string there = first.left.value_or("the default");
  const std::string here = first.right.value_or("the default");
  return text +
         visible_line(fmt::format("{}; the first: {}, there {}, here {}.",
                                  counted(std::ssize(least), "key"), first.key, there, here)) +
         '\n';
}

// Returns a shell command that starts rank `rank` of the newest attempt as the runner did, in an
// attempt folder of its own. Returns "" if the run's folder has no run.yaml yet.
std::string reproduction(const Store& store, const RunRecord& run, int rank,
                         const std::filesystem::path& results,
                         const std::filesystem::path& trainer) {
  const RunPaths paths(std::filesystem::absolute(results / run.folder).lexically_normal());
  if (!std::filesystem::exists(paths.spec())) return "";
  const RunSpec spec = store.spec(run.id);
  auto variables = recorded_variables(store.provenance(run.id, run.attempt));
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

// Tells how much of the job's requests the run used. Empty: nothing is known.
std::string explain_use(const Store& store, const RunRecord& run) {
  const std::string use = use_of_requests(row_of(store, run));
  return use.empty() ? "" : visible_line(use) + '\n';
}

// Returns what the cluster's accounting measured of the run's newest job. Empty: nothing is known.
std::string explain_accounts(const Store& store, const RunRecord& run) {
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  if (attempts.empty() || attempts.back().slurm_job.empty()) return "";
  try {
    const auto accounts = make_queue()->accounts(attempts.back().slurm_job);
    if (!accounts) return "";
    std::vector<std::string> texts;
    if (accounts->node_energy_joules) {
      texts.push_back(
          fmt::format("the nodes used {} kJ",
                      three_digits(static_cast<double>(*accounts->node_energy_joules) / 1000)));
    }
    if (accounts->memory_bytes_max) {
      texts.push_back(fmt::format("one process used at most {} (MaxRSS)",
                                  bytes_text(*accounts->memory_bytes_max)));
    }
    return fmt::format("Slurm's accounting of the job {}: {}.\n", attempts.back().slurm_job,
                       fmt::join(texts, ", "));
  } catch (const std::exception&) {  // no Slurm here, or no answer
    return "";
  }
}

ExitCode explain(const ExplainArguments& arguments) {
  Store store = existing_results(arguments.results);
  refresh_open_jobs(store, arguments.results);
  const RunRecord run = find_run(store, arguments.word);
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  const int64_t rank = attempts.empty() ? 0 : attempts.back().reason_rank.value_or(0);
  const std::string command = reproduction(store, run, static_cast<int>(rank), arguments.results,
                                           find_trainer(arguments.trainer));
  std::string text = fmt::format(
      "Run {}: {}\n{}{}{}{}\n", run_label(run), explain_status(store, run, arguments.results),
      explain_failure(store, run, arguments.results),
      explain_memory(store, run, store.spec(run.id)),
      explain_use(store, run) + explain_accounts(store, run), explain_identity(store, run));
  text += command.empty() ? "It was not started yet, so there is nothing to reproduce.\n"
                          : fmt::format(
                                "To start rank {} by hand (several ranks wait for each "
                                "other: start each one, with its RANK and LOCAL_RANK):\n"
                                "{}\n",
                                rank, command);
  std::cout << text;
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_explain_command(CLI::App& command) {
  const auto arguments = std::make_shared<ExplainArguments>();
  command.footer(R"(Examples:
  fsdp-run explain 4xFSDP
  fsdp-run explain lab/4xFSDP --results /tmp/try)");
  command.add_option("RUN", arguments->word, kRunWordHelp)->required();
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return explain(*arguments); };
}

}  // namespace fsdp
