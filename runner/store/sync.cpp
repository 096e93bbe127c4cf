// Brings the index, results.sqlite, up to date with the files of a results folder. It may be killed
// anywhere: the next call does the rest. Nothing else writes tables, except the cache of digests.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "base/files/digest.h"
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

// False if that cannot be told, because a folder denies access.
bool is_gone(const path& place) {
  std::error_code hidden;
  return !std::filesystem::exists(place, hidden) && !hidden;
}

}  // namespace

std::pair<RunStatus, std::string> standing(const std::vector<AttemptRecord>& attempts) {
  if (attempts.empty()) return {RunStatus::kPlanned, ""};
  const auto own = std::find_if(attempts.rbegin(), attempts.rend(),
                                [](const auto& each) { return !is_cut_short(each.status); });
  const bool is_open = attempts.back().status == RunStatus::kRunning;
  const AttemptRecord& shown = is_open || own == attempts.rend() ? attempts.back() : *own;
  return {shown.status, shown.reason};
}

bool Store::is_settled(const path& place) const {
  const auto stamp =
      sql("select stamp from stamps where place = ?").value<std::string>(place.string());
  return stamp && *stamp == stamp_of(results_ / place);
}

void Store::settle(const path& place, const std::string& stamp) {
  if (stamp.empty()) return unsettle(place);
  sql("insert or replace into stamps (place, stamp) values (?, ?)").run(place.string(), stamp);
}

void Store::unsettle(const path& place) {
  sql("delete from stamps where place = ?").run(place.string());
}

// A place that cannot be read, or that has impossible values, does not hide the others.
void Store::try_to_sync(const path& place, SyncOfPlace sync) {
  database_.execute("savepoint before_place");
  try {
    (this->*sync)(place);
  } catch (const ResultsUnavailable&) {
    throw;
  } catch (const std::runtime_error& error) {
    if (may_pass(error)) throw;
    database_.execute("rollback to before_place");
    warn_(fmt::format("{}: left out: {}", (results_ / place).string(), error.what()));
  }
  database_.execute("release before_place");
}

// Lets other processes write now and then. They may have done a part meanwhile.
void Store::sync_places(std::span<const path> places, SyncOfPlace sync) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLongestHold{500}, kPause{150};
  for (bool is_first = true; !places.empty(); is_first = false) {
    if (!is_first && inode_ != 0) std::this_thread::sleep_for(kPause);
    Transaction transaction(database_);
    const Clock::time_point begin = Clock::now();
    for (; !places.empty() && Clock::now() - begin < kLongestHold; places = places.subspan(1)) {
      if (is_first || !is_settled(places.front())) try_to_sync(places.front(), sync);
    }
    transaction.commit();
  }
}

// Forgets runs that are gone first, because others may have their numbers.
void Store::sync_all() {
  if (!has_run_files(results_)) write_files();
  parts_ = parts_of(results_);
  sync_parts();
  std::vector<path> jobs;
  for (const path& name : visible_names(results_ / "slurm")) jobs.push_back("slurm" / name);
  sync_places(unsettled(jobs), &Store::sync_job);
}

void Store::sync_parts() {
  std::vector<path> folders, lists, gone;
  for (const ResultsPart& part : parts_) {
    for (const path& folder : run_folders(results_ / part.folder)) {
      folders.push_back(part.folder / folder);
    }
    for (const path& name : visible_names(lists_folder(results_ / part.folder))) {
      if (name.extension() == ".json") lists.push_back(lists_folder(part.folder) / name);
    }
  }
  const std::set<path> there(folders.begin(), folders.end());
  for (path& folder : sql("select folder from runs").rows<path>()) {
    if (!there.contains(folder)) gone.push_back(std::move(folder));
  }
  sync_places(gone, &Store::sync_run);
  sync_places(unsettled(std::move(folders)), &Store::sync_run);
  sync_places(unsettled(std::move(lists)), &Store::sync_list);
}

const ResultsPart& Store::part_of(const path& place) const {
  return *std::ranges::max_element(parts_, {}, [&](const ResultsPart& part) {
    const bool holds = place.native().starts_with(part.folder.native() + '/');
    return holds ? part.folder.native().size() : 0;
  });
}

bool Store::is_place_of_run(const path& folder) const {
  return is_run_folder(folder.lexically_relative(part_of(folder).folder));
}

// Returns nullopt, too, if the folder is not where a part has its runs.
std::optional<RunRecord> Store::read_run_of_part(const path& folder) const {
  if (!is_place_of_run(folder)) return std::nullopt;
  const ResultsPart& part = part_of(folder);
  auto run = read_run(results_, folder, warn_);
  if (!run) return std::nullopt;
  run->source = part.source;
  run->experiment = name_here(part.source, run->experiment);
  return run;
}

path Store::list_of_run(const RunRecord& run) const {
  const size_t prefix = run.source.empty() ? 0 : run.source.size() + 1;
  return list_file(part_of(run.folder).folder, std::string_view(run.experiment).substr(prefix));
}

// One query for all places: SQLite locks the file, and looks for a journal, for each query.
std::vector<path> Store::unsettled(std::vector<path> places) const {
  if (places.empty()) return places;
  const auto rows = sql("select place, stamp from stamps").rows<std::string, std::string>();
  const std::set settled(rows.begin(), rows.end());
  std::erase_if(places, [&](const path& place) {
    return settled.contains({place.string(), stamp_of(results_ / place)});
  });
  return places;
}

void Store::sync(const std::set<path>& folders) {
  if (is_lost() && !database_.in_transaction()) return sync();
  if (folders.empty()) return;
  check_are_there(results_);
  Transaction transaction(database_);
  for (const path& folder : folders) try_to_sync(folder, &Store::sync_run);
  transaction.commit();
}

// A copy of a list, under another name, says nothing.
void Store::sync_list(const path& file) {
  Transaction transaction(database_);
  const std::string stamp = stamp_of(results_ / file);
  const ResultsPart& part = part_of(file);
  auto list = read_list(results_ / file, warn_);
  if (list && list_file(part.folder, list->name) == file) {
    const std::string name = name_here(part.source, list->name);
    require_source(name, part.source);
    sql("insert into experiments (name, title, file, text, profile, compare, source) "
        "values (?, ?, ?, ?, ?, ?, ?) "
        "on conflict (name) do update set title = excluded.title, file = excluded.file, "
        "text = excluded.text, profile = excluded.profile, compare = excluded.compare")
        .run(name, list->title, list->file, keep_text(part, list->text_digest), list->profile,
             list->compare, part.source);
    for (path& folder : list->runs) folder = part.folder / folder;
    sql("update runs set current = folder in (select value from json_each(?)) "
        "where experiment = ?")
        .run(json_text(list->runs), name);
  }
  settle(file, list ? stamp : "");
  transaction.commit();
}

// Records an experiment's text, and returns it; empty if there is none.
std::string Store::keep_text(const ResultsPart& part, const std::string& digest) {
  constexpr size_t kLargestBytes = 64 << 20;
  const path file = text_file(results_ / part.folder, digest);
  if (digest.empty() || is_gone(file)) return "";
  std::string text = read_input_file(file, kLargestBytes);
  if (text_digest(text) != digest) {
    warn_(file.string() + ": left out, because its text was changed");
    return "";
  }
  sql("insert or ignore into experiment_texts (digest, text) values (?, ?)").run(digest, text);
  return text;
}

void Store::sync_run(const path& folder) {
  Transaction transaction(database_);
  const std::string stamp = stamp_of(results_ / folder);
  bool is_whole = false;
  if (const auto run = read_run_of_part(folder)) {
    is_whole = put_run_with_attempts(*run);
  } else if (is_gone(run_file(results_, folder)) || !is_place_of_run(folder)) {
    const auto known = sql("select id from runs where folder = ?").value<int64_t>(folder);
    if (known) forget_run(*known);
    is_whole = !known && is_place_of_run(folder);  // a known one may have been away for a moment
  }
  settle(folder, is_whole ? stamp : "");
  transaction.commit();
}

// Returns false if another folder has this run, or if a part of it may come or be read later.
bool Store::put_run_with_attempts(const RunRecord& run) {
  if (!gives_way(run)) return false;
  const int64_t id = put_run(run);
  const RunPaths paths(results_ / run.folder);
  bool is_whole = !forget_attempts_if_one_is_gone(id, paths);
  for (const int attempt : attempts_with_folder(paths)) {
    is_whole &= sync_attempt(id, paths, attempt, run);
  }
  settle_status(id, paths);
  return is_whole;
}

// Forgets what else the index knows about the run's folder, and a copy of the run in another one.
// Returns false if this is the copy: the experiment's list does not name it, and the other is
// there.
bool Store::gives_way(const RunRecord& run) {
  for (const int64_t other :
       sql("select id from runs where folder = ? and (experiment, point, hash) <> (?, ?, ?)")
           .rows<int64_t>(run.folder, run.experiment, run.point, run.hash)) {
    forget_run(other);
  }
  const auto known = recorded_run(run.experiment, run.point, run.hash);
  if (!known || known->folder == run.folder) return true;
  const auto other = read_run_of_part(known->folder);
  const bool is_same = other && std::tie(other->experiment, other->point, other->hash) ==
                                    std::tie(run.experiment, run.point, run.hash);
  if (!is_same) return true;
  const auto list = read_list(results_ / list_of_run(run), warn_);
  const path& part = part_of(run.folder).folder;
  const auto is_listed = [&](const path& folder) {
    return list &&
           std::ranges::find(list->runs, folder.lexically_relative(part)) != list->runs.end();
  };
  if (is_listed(run.folder) && !is_listed(known->folder)) {
    forget_run(known->id);
    return true;
  }
  warn_(fmt::format("{}: left out, because {} holds the same run", (results_ / run.folder).string(),
                    known->folder.string()));
  return false;
}

// Returns the run's number, which is the one in its file unless another run has that.
int64_t Store::put_run(const RunRecord& run) {
  require_source(run.experiment, run.source);
  const auto known = sql("select id from runs where (experiment, point, hash) = (?, ?, ?)")
                         .value<int64_t>(run.experiment, run.point, run.hash);
  if (!known) {
    sql("insert or ignore into experiments (name, title, file, text, profile, compare, source) "
        "values (?, '', '', '', '', 'loss', ?)")
        .run(run.experiment, run.source);
    unsettle(list_of_run(run));  // which says if the run is current
  }
  const int64_t id = known ? *known : free_number("runs", run.id);
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

// Returns false if the attempt has not begun or not ended, or was started by hand.
bool Store::sync_attempt(int64_t run, const RunPaths& paths, int attempt, const RunRecord& record) {
  using Ended = std::tuple<RunStatus, std::string, int, std::optional<int64_t>>;
  const auto start = read_record<AttemptStart>(paths.launch_record(attempt), warn_);
  const auto known_start =
      sql("select started_unix_ms from attempts" + kOfAttempt).value<int64_t>(run, attempt);
  // The attempt's folder was deleted, and another attempt has the same number.
  if (known_start && start && *known_start != start->started_unix_ms) forget_attempt(run, attempt);
  const auto known = sql("select status, reason, coalesce(reason_rank, -1), ended_unix_ms "
                         "from attempts" +
                         kOfAttempt)
                         .value<RunStatus, std::string, int, std::optional<int64_t>>(run, attempt);
  if (!known) {
    if (!start) return false;
    sql("insert into attempts " +
        values_of("run, attempt, status, reason, " + field_columns<AttemptStart>()))
        .run(run, attempt, RunStatus::kRunning, "", *start);
    keep_text(part_of(record.folder), start->provenance.experiment_text_digest);
  }
  const auto verdict = read_verdict(paths, attempt, warn_);
  if (!verdict && !is_gone(verdict_file(paths, attempt))) return false;
  Ended now = verdict ? Ended(verdict->status, verdict->reason, verdict->reason_rank,
                              verdict->ended_unix_ms)
                      : Ended(RunStatus::kRunning, "", -1, std::nullopt);
  if (verdict && known == now) return true;
  const int ranks = static_cast<int>(record.spec.strategy.ranks);
  read_events(run, paths, attempt, ranks);
  const bool is_whole = verdict && (verdict->status != RunStatus::kFinished ||
                                    all_ranks_finished(run, attempt, ranks));
  if (verdict && !is_whole) {
    std::get<0>(now) = RunStatus::kFailed;
    std::get<1>(now) = "finished, but the events of its ranks are no longer whole";
  }
  if (known == now) return is_whole;
  sql("update attempts set status = ?, reason = ?, reason_rank = nullif(?, -1), "
      "ended_unix_ms = max(?, started_unix_ms)" +
      kOfAttempt)
      .run(std::get<0>(now), std::get<1>(now), std::get<2>(now), std::get<3>(now), run, attempt);
  if (verdict) settle_figures(run, attempt);
  return is_whole;
}

// False if a rank reported anything, and the events of one of `ranks` do not reach its last step.
bool Store::all_ranks_finished(int64_t run, int attempt, int ranks) const {
  const auto [reported, finished] =
      sql("select count(*), count(*) filter (where end_kind = 'run_finished' and reason = '') "
          "from ranks" +
          kOfAttempt)
          .value<int, int>(run, attempt)
          .value();
  return reported == 0 || (reported == finished && finished == ranks);
}

// Returns false if no rank has written since the last call.
bool Store::read_events(int64_t run, const RunPaths& paths, int attempt, int ranks) {
  EventTail tail(paths, attempt, ranks, warn_);
  for (const auto& [rank, place] :
       sql("select rank, place from ranks" + kOfAttempt + " and place is not null")
           .rows<int, std::string>(run, attempt)) {
    if (rank < ranks)
      tail.go_to(rank, value_from_json<EventTail::Place>("", parse_foreign_json(place)));
  }
  bool has_news = false;
  do {
    const std::vector<std::vector<Event>> events = tail.poll();
    ingest(run, attempt, events, tail.skipped_lines());
    Statement& update = sql("update ranks set place = ?" + kOfAttempt + " and rank = ?");
    for (int rank = 0; rank < ranks; ++rank) {
      if (events[static_cast<size_t>(rank)].empty()) continue;
      update.run(json_text(tail.place(rank)), run, attempt, rank);
      has_news = true;
    }
  } while (!tail.at_end());
  return has_news;
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

// A job whose file cannot be read stays as it is: runs in a forgotten job would be submitted again.
void Store::sync_job(const path& folder) {
  Transaction transaction(database_);
  const std::string stamp = stamp_of(results_ / folder);
  const auto job = read_job(results_, folder, warn_);
  const bool is_known = job || is_gone(job_file(results_, folder));
  const bool is_whole = is_known && put_job(folder, job);
  settle(folder, is_whole ? stamp : "");
  transaction.commit();
}

// Returns false if the index lacks a run of the job.
bool Store::put_job(const path& folder, const std::optional<JobRecord>& job) {
  for (const int64_t id : sql("select id from jobs where folder = ?").rows<int64_t>(folder)) {
    sql("delete from job_tasks where job = ?").run(id);
    sql("delete from jobs where id = ?").run(id);
  }
  if (!job) return true;
  JobRecord known = *job;
  std::erase_if(known.tasks, [&](const JobTask& task) {
    const auto run = this->run(task.run);
    return !run || run->experiment != job->experiment;
  });
  if (!known.tasks.empty()) {
    known.id = free_number("jobs", job->id);
    sql("insert into jobs " + values_of(field_columns<JobRecord>())).run(known);
    for (const JobTask& task : known.tasks) {
      sql("insert or replace into job_tasks " + values_of("job, " + field_columns<JobTask>()))
          .run(known.id, task);
    }
  }
  return known.tasks.size() == job->tasks.size();
}

// Returns `wanted`, or the next number if a row of the table has it or it is too large.
int64_t Store::free_number(const std::string& table, int64_t wanted) const {
  constexpr int64_t kLargest = 1'000'000'000;
  const bool is_free = wanted > 0 && wanted <= kLargest &&
                       !sql("select 1 from " + table + " where id = ?").value<int>(wanted);
  if (is_free) return wanted;
  return sql("select coalesce(max(id), 0) + 1 from " + table).value<int64_t>().value();
}

void Store::forget_attempt(int64_t run, int attempt) {
  database_.execute("pragma defer_foreign_keys = on");
  for (const std::string& table : tables_of_runs(database_)) {
    if (table != "job_tasks") sql("delete from " + table + kOfAttempt).run(run, attempt);
  }
  figures_.erase({run, attempt});
}

// Forgets all attempts of the run if one is no longer in its files, since the figures of an attempt
// depend on earlier ones. Returns true if so. The run must then be read once more, because its
// folder may have been away for a moment.
bool Store::forget_attempts_if_one_is_gone(int64_t run, const RunPaths& paths) {
  const auto known = sql("select attempt from attempts where run = ?").rows<int>(run);
  const auto has_gone = [&](int attempt) { return is_gone(paths.launch_record(attempt)); };
  if (std::ranges::none_of(known, has_gone)) return false;
  for (const int attempt : known) forget_attempt(run, attempt);
  return true;
}

// The run may come back: its folder was only moved away. Its jobs are read again then.
void Store::forget_run(int64_t run) {
  database_.execute("pragma defer_foreign_keys = on");
  sql("delete from stamps where place in "
      "(select folder from jobs join job_tasks on job = id where run = ?)")
      .run(run);
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

}  // namespace fsdp
