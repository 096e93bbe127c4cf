// Brings the index, results.sqlite, up to date with the files of a results folder. It may be killed
// anywhere: the next call does the rest. Besides, only merge, prune and the cache of digests write.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/system/unix_time.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "contract/record/run_paths.h"
#include "runner/store/event_files.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/run_files.h"
#include "runner/store/run_folders.h"
#include "runner/store/schema.h"
#include "runner/store/store.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// A file system's clock may advance in steps. Two changes within one step look like one.
constexpr int64_t kClockStepMs = 2'000;

// Returns text that differs after each change of the file, or of the names in the folder. Empty if
// there is none, or if it changed so recently that another change could look the same.
std::string stamp_of(const path& place) {
  struct stat status {};
  if (stat(place.c_str(), &status) != 0) return "";
  const int64_t changed_ms = status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000;
  if (std::abs(now_unix_ms() - changed_ms) < kClockStepMs) return "";
  return fmt::format("{} {} {} {}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

// Returns the folders two levels below <results>/runs, relative to the results.
std::vector<path> run_folders(const path& results) {
  std::vector<path> folders;
  std::error_code none;
  for (const auto& list : std::filesystem::directory_iterator(results / "runs", none)) {
    for (const auto& run : std::filesystem::directory_iterator(list.path(), none)) {
      const bool is_removed = run.path().filename().string().starts_with('.');  // by prune
      if (is_removed) continue;
      folders.push_back(path("runs") / list.path().filename() / run.path().filename());
    }
  }
  return folders;
}

// Returns the status that follows from a run's attempts. The newest attempt decides if it runs.
// Otherwise the newest that was not cut short decides, or the newest if there is none.
std::pair<RunStatus, std::string> standing(const std::vector<AttemptRecord>& attempts) {
  if (attempts.empty()) return {RunStatus::kPlanned, ""};
  const auto own = std::find_if(attempts.rbegin(), attempts.rend(),
                                [](const auto& each) { return !is_cut_short(each.status); });
  const bool is_open = attempts.back().status == RunStatus::kRunning;
  const AttemptRecord& shown = is_open || own == attempts.rend() ? attempts.back() : *own;
  return {shown.status, shown.reason};
}

}  // namespace

bool Store::is_settled(const path& place) const {
  const auto stamp =
      sql("select stamp from stamps where place = ?").value<std::string>(place.string());
  return stamp && !stamp->empty() && *stamp == stamp_of(results_ / place);
}

void Store::settle(const path& place, const std::string& stamp) {
  sql("insert or replace into stamps (place, stamp) values (?, ?)").run(place, stamp);
}

// A place that cannot be read, or that has impossible values, does not hide the others.
void Store::try_to_sync(const path& place, void (Store::*sync_place)(const path&)) {
  try {
    (this->*sync_place)(place);
  } catch (const ResultsUnavailable&) {
    throw;
  } catch (const std::runtime_error& error) {
    if (may_pass(error)) throw;
    warn_(fmt::format("{}: left out: {}", (results_ / place).string(), error.what()));
  }
}

void Store::sync_all() {
  if (!has_run_files(results_)) write_files();
  std::set<path> open;
  for (path& folder : sql("select folder from runs where exists "
                          "(select 1 from attempts where run = id and status = 'running')")
                          .rows<path>()) {
    open.insert(std::move(folder));
  }
  const std::vector<path> folders = run_folders(results_);
  for (const path& folder : folders) {
    if (open.contains(folder) || !is_settled(folder)) try_to_sync(folder, &Store::sync_run);
  }
  const std::set<path> there(folders.begin(), folders.end());
  for (const path& folder : sql("select folder from runs r join experiments e "
                                "on e.name = r.experiment where e.source = ''")
                                .rows<path>()) {
    if (!there.contains(folder)) sync_run(folder);
  }
  std::error_code none;
  for (const auto& list : std::filesystem::directory_iterator(lists_folder(results_), none)) {
    const path file = list.path().lexically_relative(results_);
    if (!is_settled(file)) try_to_sync(file, &Store::sync_list);
  }
  for (const auto& job : std::filesystem::directory_iterator(results_ / "slurm", none)) {
    const path folder = path("slurm") / job.path().filename();
    if (!is_settled(folder)) try_to_sync(folder, &Store::sync_job);
  }
}

void Store::sync(const std::set<path>& folders) {
  if (is_lost() && !database_.in_transaction()) return sync();
  if (folders.empty()) return;
  check_are_there(results_);
  Transaction transaction(database_);
  for (const path& folder : folders) sync_run(folder);
  transaction.commit();
}

void Store::sync_list(const path& file) {
  const std::string stamp = stamp_of(results_ / file);
  const auto list = read_list(results_ / file, warn_);
  Transaction transaction(database_);
  settle(file, list ? stamp : "");  // a file that cannot be read is read again
  if (list) {
    require_own(list->name);
    sql("insert into experiments (name, title, file, text, profile, compare) "
        "values (?, ?, ?, ?, ?, ?) "
        "on conflict (name) do update set title = excluded.title, file = excluded.file, "
        "text = excluded.text, profile = excluded.profile, compare = excluded.compare")
        .run(list->name, list->title, list->file, keep_text(list->text_digest), list->profile,
             list->compare);
    sql("update runs set current = folder in (select value from json_each(?)) "
        "where experiment = ?")
        .run(json_text(list->runs), list->name);
  }
  transaction.commit();
}

// Records an experiment's text, and returns it; empty if there is none.
std::string Store::keep_text(const std::string& digest) {
  constexpr size_t kLargestBytes = 64 << 20;
  std::error_code not_there;
  const path file = text_file(results_, digest);
  if (digest.empty() || !std::filesystem::exists(file, not_there)) return "";
  std::string text = read_input_file(file, kLargestBytes);
  sql("insert or ignore into experiment_texts (digest, text) values (?, ?)").run(digest, text);
  return text;
}

void Store::sync_run(const path& folder) {
  Transaction transaction(database_);
  const std::string stamp = stamp_of(results_ / folder);
  std::error_code hidden;
  const auto run = read_run(results_, folder, warn_);
  if (!run) {
    const bool is_gone = !std::filesystem::exists(results_ / folder, hidden) && !hidden;
    const auto known = sql("select id from runs where folder = ?").value<int64_t>(folder);
    if (is_gone && known) forget_run(*known);
    const bool is_no_run = !std::filesystem::exists(run_file(results_, folder), hidden);
    settle(folder, is_no_run && !is_gone ? stamp : "");
  } else if (const auto id = put_run(*run); !id) {
    settle(folder, stamp);
  } else {
    const RunPaths paths(results_ / folder);
    bool all_have_begun = true;
    for (const int attempt : attempts_with_folder(paths)) {
      all_have_begun &= sync_attempt(*id, paths, attempt, run->spec);
    }
    settle_status(*id, paths);
    all_have_begun ? settle(folder, stamp) : unsettle(folder);
  }
  transaction.commit();
}

// Returns the run's number. nullopt if another folder has this run.
std::optional<int64_t> Store::put_run(const RunRecord& run) {
  const auto known = recorded_run(run.experiment, run.point, run.hash);
  const auto is_same = [&](const std::optional<RunRecord>& other) {
    return other && std::tie(other->experiment, other->point, other->hash) ==
                        std::tie(run.experiment, run.point, run.hash);
  };
  if (known && known->folder != run.folder && is_same(read_run(results_, known->folder, warn_))) {
    warn_(fmt::format("{}: left out, because {} holds the same run",
                      (results_ / run.folder).string(), known->folder.string()));
    return std::nullopt;
  }
  require_own(run.experiment);
  if (!known) {
    sql("insert or ignore into experiments (name, title, file, text, profile, compare) "
        "values (?, '', '', '', '', 'loss')")
        .run(run.experiment);
    unsettle(list_file("", run.experiment));  // which says if the run is current
  }
  const bool is_taken = sql("select 1 from runs where id = ?").value<int>(run.id).has_value();
  const int64_t id = known      ? known->id
                     : is_taken ? sql("select max(id) + 1 from runs").value<int64_t>().value()
                                : run.id;
  sql("insert into runs (id, experiment, point, hash, folder, position, current, status, reason,"
      "  series, repeat, data_digest, loss_digest, family, family_key, family_value, spec) "
      "values (?, ?, ?, ?, ?, ?, 0, 'planned', '', ?, ?, ?, ?, ?, ?, ?, ?) "
      "on conflict (id) "
      "do update set position = excluded.position, folder = excluded.folder,"
      "  series = excluded.series, repeat = excluded.repeat, data_digest = excluded.data_digest,"
      "  loss_digest = excluded.loss_digest, family = excluded.family,"
      "  family_key = excluded.family_key, family_value = excluded.family_value,"
      "  spec = excluded.spec")
      .run(id, run.experiment, run.point, run.hash, run.folder, run.position, run.series,
           run.repeat, run.data_digest, run.loss_digest, run.family, run.family_key,
           run.family_value, json_text(run.spec));
  return id;
}

// Returns false if the attempt has not begun, or was started by hand.
bool Store::sync_attempt(int64_t run, const RunPaths& paths, int attempt, const RunSpec& spec) {
  using Ended = std::tuple<RunStatus, std::string, int, std::optional<int64_t>>;
  const auto known = sql("select status, reason, coalesce(reason_rank, -1), ended_unix_ms "
                         "from attempts" +
                         kOfAttempt)
                         .value<RunStatus, std::string, int, std::optional<int64_t>>(run, attempt);
  if (!known) {
    const auto start = read_record<AttemptStart>(paths.launch_record(attempt), warn_);
    if (!start) return false;
    sql("insert into attempts " +
        values_of("run, attempt, status, reason, " + field_columns<AttemptStart>()))
        .run(run, attempt, RunStatus::kRunning, "", *start);
    keep_text(start->provenance.experiment_text_digest);
  }
  const auto verdict = read_verdict(paths, attempt, warn_);
  const Ended now = verdict ? Ended(verdict->status, verdict->reason, verdict->reason_rank,
                                    verdict->ended_unix_ms)
                            : Ended(RunStatus::kRunning, "", -1, std::nullopt);
  const bool is_known = known && *known == now;
  if (is_known && verdict) return true;
  read_events(run, paths, attempt, static_cast<int>(spec.strategy.ranks));
  if (is_known) return true;
  sql("update attempts set status = ?, reason = ?, reason_rank = nullif(?, -1), "
      "ended_unix_ms = max(?, started_unix_ms)" +
      kOfAttempt)
      .run(std::get<0>(now), std::get<1>(now), std::get<2>(now), std::get<3>(now), run, attempt);
  if (verdict) settle_figures(run, attempt);
  return true;
}

void Store::read_events(int64_t run, const RunPaths& paths, int attempt, int ranks) {
  EventTail tail(paths, attempt, ranks, warn_);
  for (const auto& [rank, place] :
       sql("select rank, place from ranks" + kOfAttempt + " and place is not null")
           .rows<int, std::string>(run, attempt)) {
    if (rank < ranks)
      tail.go_to(rank, value_from_json<EventTail::Place>("", parse_foreign_json(place)));
  }
  do {
    const std::vector<std::vector<Event>> events = tail.poll();
    ingest(run, attempt, events, tail.skipped_lines());
    Statement& update = sql("update ranks set place = ?" + kOfAttempt + " and rank = ?");
    for (int rank = 0; rank < ranks; ++rank) {
      const bool has_news = !events[static_cast<size_t>(rank)].empty();
      if (has_news) update.run(json_text(tail.place(rank)), run, attempt, rank);
    }
  } while (!tail.at_end());
}

// The first losses of later attempts are the run's.
void Store::settle_figures(int64_t run, int attempt) {
  const auto ended = sql("select attempt from attempts where run = ?1 and attempt = ?2 or "
                         "run = ?1 and attempt > ?2 and ended_unix_ms is not null")
                         .rows<int>(run, attempt);
  for (const int each : ended) {
    write_figures(run, each, figures_of(run, each), /*has_ended=*/true);
    figures_.erase({run, each});
  }
}

// A note of an end that is not the run's own does not replace the run's result.
void Store::settle_status(int64_t run, const RunPaths& paths) {
  const std::vector<AttemptRecord> attempts = this->attempts(run);
  auto [status, reason] = standing(attempts);
  const auto ended = std::ranges::count_if(
      attempts, [](const auto& each) { return each.status != RunStatus::kRunning; });
  const auto note = read_status(paths, warn_);
  if (note && note->attempts_begun == std::ssize(attempts) && note->attempts_ended == ended) {
    const auto result = std::find_if(attempts.rbegin(), attempts.rend(),
                                     [](const auto& each) { return is_result(each.status); });
    const bool is_of_result = (is_cut_short(note->status) || note->status == RunStatus::kFailed) &&
                              result != attempts.rend();
    status = is_of_result ? result->status : note->status;
    reason = is_of_result ? result->reason : note->reason;
  }
  sql("update runs set status = ?, reason = ? where id = ?").run(status, reason, run);
}

void Store::write_files() {
  for (const auto& [digest, text] :
       sql("select digest, text from experiment_texts").rows<std::string, std::string>()) {
    write_text(results_, digest, text);
  }
  for (RunRecord& run : runs()) {
    if (!run.source.empty() || !is_run_folder(run.folder)) continue;
    run.spec = spec(run.id);
    write_run(results_, run);
    const RunPaths paths(results_ / run.folder);
    const std::vector<AttemptRecord> attempts = this->attempts(run.id);
    int64_t ended = 0;
    for (const AttemptRecord& attempt : attempts) {
      make_folder(results_, run.folder / paths.attempt(attempt.attempt).filename());
      if (!std::filesystem::exists(paths.launch_record(attempt.attempt))) {
        write_record(paths.launch_record(attempt.attempt),
                     static_cast<const AttemptStart&>(attempt));
      }
      if (attempt.status == RunStatus::kRunning) continue;
      ++ended;
      write_verdict(paths, attempt.attempt,
                    {.status = attempt.status,
                     .reason = attempt.reason,
                     .reason_rank = static_cast<int>(attempt.reason_rank.value_or(-1)),
                     .ended_unix_ms = attempt.ended_unix_ms.value_or(attempt.started_unix_ms)});
    }
    if (standing(attempts) == std::pair(run.status, run.reason)) continue;
    write_status(paths, {run.status, run.reason, std::ssize(attempts), ended});
  }
  for (const JobRecord& job : jobs("? = 1", 1)) write_job(results_, job);
  std::vector<RunList> lists;
  for (const ExperimentRecord& experiment : experiments()) {
    if (experiment.source.empty()) lists.push_back(list_of(experiment.name));
  }
  write_first_lists(results_, lists);
}

// A job whose file cannot be read stays: runs of a forgotten job would be submitted again.
void Store::sync_job(const path& folder) {
  const std::string stamp = stamp_of(results_ / folder);
  const auto job = read_job(results_, folder, warn_);
  std::error_code hidden;
  if (!job && (std::filesystem::exists(job_file(results_, folder), hidden) || hidden)) return;
  Transaction transaction(database_);
  settle(folder, stamp);
  for (const int64_t id : sql("select id from jobs where folder = ?").rows<int64_t>(folder)) {
    sql("delete from job_tasks where job = ?").run(id);
    sql("delete from jobs where id = ?").run(id);
  }
  if (job) {
    sql("insert into jobs " + values_of(field_columns<JobRecord>())).run(*job);
    for (const JobTask& task : job->tasks) {
      sql("insert or replace into job_tasks " + values_of("job, " + field_columns<JobTask>()))
          .run(job->id, task);
    }
  }
  transaction.commit();
}

void Store::forget_run(int64_t run) {
  database_.execute("pragma defer_foreign_keys = on");
  for (const std::string& table : tables_of_runs(database_)) {
    sql("delete from " + table + " where run = ?").run(run);
  }
  sql("delete from runs where id = ?").run(run);
  // The attempts of an open job will name the text that was submitted.
  database_.execute(
      "delete from jobs where id not in (select job from job_tasks);"
      "delete from experiments where name not in (select experiment from runs);"
      "delete from experiment_texts where digest not in "
      "  (select experiment_text_digest from attempts) "
      "  and not exists (select 1 from job_tasks where over = 0)");
}

void Store::unsettle(const path& place) {
  sql("delete from stamps where place = ?").run(place.string());
}

}  // namespace fsdp
