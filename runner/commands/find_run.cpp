#include "runner/commands/find_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <iterator>
#include <system_error>

#include "base/files/whole_file.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/cluster/open_jobs.h"
#include "runner/cluster/queue.h"
#include "runner/cluster/script.h"
#include "runner/experiment/experiment.h"
#include "runner/series/run_keys.h"
#include "runner/store/list_name.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

constexpr size_t kShortestHash = 8;
constexpr int kQuestionsPause = 4;  // files are read this many times for each question to Slurm

bool is_named_by_point(const RunRecord& run, const std::string& word) {
  return word == run.point || word == run.experiment + '/' + run.point;
}

bool is_named_by_number_or_hash(const RunRecord& run, const std::string& word) {
  return word == std::to_string(run.id) ||
         (word.size() >= kShortestHash && run.hash.starts_with(word));
}

std::vector<RunRecord> runs_named(const std::vector<RunRecord>& runs, const std::string& word) {
  // A point means a run in a list, and one in a list without overrides if there is any.
  const auto rank = [](const RunRecord& run) {
    return run.current ? 2 - static_cast<int>(!overrides_in(run.experiment).empty()) : 0;
  };
  int best = 0;
  for (const RunRecord& run : runs) {
    if (is_named_by_point(run, word)) best = std::max(best, rank(run));
  }
  std::vector<RunRecord> found;
  std::ranges::copy_if(runs, std::back_inserter(found), [&](const RunRecord& run) {
    return is_named_by_number_or_hash(run, word) ||
           (is_named_by_point(run, word) && rank(run) == best);
  });
  return found;
}

// Finds runs by the names that `report --all` gives to runs that left the list.
std::vector<RunRecord> variants_named(const Store& store, const std::vector<RunRecord>& runs,
                                      const std::string& word) {
  std::vector<RunRecord> found;
  if (!word.ends_with(']')) return found;
  std::vector<ComparisonRow> rows = store.comparison("", Listed::kEver);
  name_variants(rows);
  for (const ComparisonRow& row : rows) {
    if (row.point != word && row.experiment + '/' + row.point != word) continue;
    found.push_back(*std::ranges::find(runs, row.run, &RunRecord::id));
  }
  return found;
}

[[noreturn]] void refuse_unknown(const std::vector<RunRecord>& runs, const std::string& word) {
  if (runs.empty()) throw ConfigError("", word, "there is no run in the results yet");
  throw ConfigError("", word,
                    "names no run; allowed: a run's number, its point or EXPERIMENT/POINT, as "
                    "`fsdp-run status --all` lists them, or the first 8 digits of its hash" +
                        suggestion(word, mapped(runs, &RunRecord::point)));
}

[[noreturn]] void refuse_ambiguous(const std::vector<RunRecord>& found, const std::string& word) {
  throw ConfigError(
      "", word,
      fmt::format(
          "names {}: {}; give one of these numbers, EXPERIMENT/POINT, or 8 digits of a hash",
          counted(std::ssize(found), "run"), joined_names(mapped(found, run_label))));
}

// Finds experiments by name or by file.
std::vector<std::string> experiments_named(const Store& store, const std::string& word,
                                           Purpose purpose) {
  const auto with_name = [&](const std::string& name) {
    std::vector<std::string> names;
    std::vector<std::string> lists;  // with overrides; meant if there is none without
    for (const ExperimentRecord& record : store.experiments()) {
      const bool is_of_merged = purpose == Purpose::kRead && !record.source.empty();
      const auto is_named = [&](const std::string& own) {
        return own == name || (is_of_merged && own == record.source + '/' + name);
      };
      if (is_named(record.name)) {
        names.push_back(record.name);
      } else if (is_named(experiment_of_list(record.name))) {
        lists.push_back(record.name);
      }
    }
    return names.empty() ? lists : names;
  };
  std::vector<std::string> names = with_name(word);
  if (!names.empty() || !std::filesystem::is_regular_file(word)) return names;
  const std::string name = Experiment::load(word).name();
  names = with_name(name);
  if (names.empty()) {
    throw ConfigError(word, "",
                      "the results hold no run of '" + name +
                          "'; run it first, or name another folder with --results");
  }
  return names;
}

// True if the file's modification time is not within `pause`.
bool is_due(const std::filesystem::path& stamp, std::chrono::seconds pause) {
  std::error_code not_there;
  const auto last = std::filesystem::last_write_time(stamp, not_there);
  const auto now = std::filesystem::file_time_type::clock::now();
  return not_there || std::chrono::abs(now - last) >= pause;
}

void touch(const std::filesystem::path& stamp) {
  try {
    replace_file(stamp, "\n");
  } catch (const std::system_error&) {  // then the next call does not wait for the pause
  }
}

}  // namespace

std::vector<std::string> find_experiments(const Store& store,
                                          const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (const std::string& word : words) {
    const auto named = experiments_named(store, word, Purpose::kRead);
    if (named.empty()) {
      const auto names = mapped(store.experiments(), &ExperimentRecord::name);
      throw ConfigError("", "",
                        fmt::format("'{}' is neither a file nor an experiment in the results{}{}{}",
                                    word, names.empty() ? "" : ", which hold: ", joined(names),
                                    suggestion(word, names)));
    }
    for (const std::string& name : named) {
      if (!is_among(found, name)) found.push_back(name);
    }
  }
  return found;
}

std::set<int64_t> find_runs(const Store& store, const std::vector<std::string>& words,
                            Purpose purpose) {
  std::set<int64_t> chosen;
  std::set<std::string> experiments;
  for (const std::string& word : words) {
    const auto names = experiments_named(store, word, purpose);
    experiments.insert(names.begin(), names.end());
    if (!names.empty()) continue;
    const RunRecord run = find_run(store, word);
    if (purpose == Purpose::kRead && !run.current) {
      throw ConfigError(
          "", word,
          "is a run that is no longer in its experiment's list; put its point back into the file "
          "and call fsdp-run with the file: its result is still stored");
    }
    chosen.insert(run.id);
  }
  for (const RunRecord& run : store.runs()) {
    if (words.empty() || experiments.contains(run.experiment)) chosen.insert(run.id);
  }
  return chosen;
}

ComparisonRow row_of(const Store& store, const RunRecord& run) {
  std::vector<ComparisonRow> rows = store.comparison(run.experiment, Listed::kEver);
  const auto found = std::ranges::find(rows, run.id, &ComparisonRow::run);
  if (found == rows.end()) {
    throw std::runtime_error(fmt::format("run {} has been removed meanwhile", run.id));
  }
  return std::move(*found);
}

std::string run_label(const RunRecord& run) {
  return fmt::format("{} ({})", run.id,
                     visible_line(fmt::format("{}/{}, {}", run.experiment, run.point,
                                              run.hash.substr(0, kShortestHash))));
}

RunRecord find_run(const Store& store, const std::string& word) {
  const std::vector<RunRecord> runs = store.runs();
  std::vector<RunRecord> found = runs_named(runs, word);
  if (found.empty()) found = variants_named(store, runs, word);
  if (found.empty()) refuse_unknown(runs, word);
  if (found.size() > 1) refuse_ambiguous(found, word);
  return found.front();
}

void refresh_open_jobs(Store& store, const std::filesystem::path& results,
                       std::chrono::seconds pause) {
  const std::filesystem::path read = results / "slurm" / "read";
  const std::filesystem::path asked = results / "slurm" / "asked";
  if (!is_due(read, pause)) return;
  const std::set<std::string> experiments = experiments_in_jobs(store);
  if (experiments.empty()) return;
  if (access(results.c_str(), W_OK) != 0 ||
      access((results / "results.sqlite").c_str(), W_OK) != 0) {
    std::cerr << "fsdp-run: you may only read " << results.string()
              << ": open jobs are shown as their owner's last call recorded them\n";
    return;
  }
  const bool asks = is_due(asked, kQuestionsPause * pause);
  touch(read);
  if (asks) touch(asked);
  try {
    const std::unique_ptr<Queue> queue = make_queue();
    const std::set<std::string> not_asked =
        refresh_free_jobs(store, results, experiments, asks ? queue.get() : nullptr, real_pauses());
    for (const std::string& experiment : not_asked) {
      std::cerr << "fsdp-run: Slurm does not answer; the jobs of '" << visible_line(experiment)
                << "' are shown as their own files report them\n";
    }
    if (!asks || !not_asked.empty()) return;
    const std::set<std::string> others = other_clusters(store, queue->limits().cluster, "");
    if (!others.empty()) std::cerr << "fsdp-run: " << visible_line(left_alone(others)) << '\n';
  } catch (const std::exception& error) {  // a host without Slurm, somebody else's results
    std::cerr << "fsdp-run: cannot ask Slurm about open jobs: " << visible_line(error.what())
              << '\n';
  }
}

std::optional<JobRecord> newest_job(const Store& store, const RunRecord& run) {
  std::vector<JobRecord> jobs = store.jobs_of_run(run.id);
  if (jobs.empty()) return std::nullopt;
  return std::move(jobs.back());
}

bool has_open_job(const Store& store, const RunRecord& run) {
  const std::optional<JobRecord> job = newest_job(store, run);
  return job && !job->tasks.front().over;
}

std::string job_text(const JobRecord& job) {
  const JobTask& task = job.tasks.front();
  if (job.slurm_job.empty()) return "a job that sbatch has not confirmed";
  std::string text = "job " + slurm_name(job, task.task);
  if (task.over) return text + ", which is over";
  if (!task.node_list.empty()) return text + " on " + task.node_list;
  if (task.state.empty()) return text;
  text += ", " + task.state;
  return task.reason.empty() ? text : text + " (" + task.reason + ')';
}

std::string job_output(const JobRecord& job, const std::filesystem::path& results) {
  return output_text(job_output(results / job.folder, slurm_name(job, job.tasks.front().task)));
}

}  // namespace fsdp
