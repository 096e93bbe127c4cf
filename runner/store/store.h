#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/files/file_digest.h"
#include "contract/record/event.h"
#include "contract/spec/run_spec.h"
#include "runner/store/attempt_reports.h"
#include "runner/store/attempts.h"
#include "runner/store/comparison.h"
#include "runner/store/records.h"
#include "runner/store/results_database.h"
#include "runner/store/run_files.h"
#include "runner/store/run_status.h"

// The SQLite database of a results folder: plans, attempts, and the reports of every rank. It is an
// index of the folder's files (run_files.h): a function that records a fact writes its file first.
namespace fsdp {

// A path in a run's specification: a file or folder that the run reads.
struct InputOfRun {
  RunRecord run;
  std::string key;  // "model.source"
  std::filesystem::path place;
};

// A run that belongs to a family of runs with one doubled key.
struct RunOfFamily {
  RunRecord run;
  // The devices on which its newest attempt that was not cut short ran out of memory, as
  // AttemptStart has them; empty: it did not.
  std::string ran_out_on;
};

// An attempt that begin_attempt() began and end_attempt() has not ended. Another runner works on
// it, or its runner was killed. In the latter case, close_attempt() ends it.
struct RunningAttempt {
  RunRecord run;
  int attempt = 0;
  int ranks = 0;
  AttemptStart start;
};

// An event as it was ingested.
template <typename Body>
struct Recorded {
  int rank = 0;
  int64_t sequence = 0;
  int64_t time_unix_ms = 0;
  Body body;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("rank", self.rank);
    visit("sequence", self.sequence);
    visit("time_unix_ms", self.time_unix_ms);
    Body::visit_fields(self.body, visit);
  }
};

// An attempt's part of a run: its steps up to `last_step`, from which a later attempt resumed.
struct Stretch {
  int attempt = 0;
  int64_t last_step = std::numeric_limits<int64_t>::max();
};

// Belongs to one thread. Several processes may open the same folder. Each call is one transaction,
// and waits up to 10 s for others, unless set_lock_wait differs. Every call may throw
// ResultsUnavailable, if the disk is full, the file is not writable, or a lock is held too long.
// The error names the file and a remedy. Earlier records stay, and the call may be made again.
class Store {
 public:
  // Opens or creates <results>/results.sqlite, as open_results does. With kExisting, also brings it
  // up to date, if it can be written. `warn` is told if not, and of files that cannot be read.
  explicit Store(
      const std::filesystem::path& results, StoreUse use = StoreUse::kCreate,
      WarnOfFile warn = [](const std::string&) {});
  // Reads several results folders, each with a source, into a temporary index. Folders of runs are
  // relative to the current folder. Such a store is only read. Throws ConfigError if a folder has
  // no files of runs.
  Store(std::vector<ResultsPart> folders, WarnOfFile warn);
  // Renames an index that was found damaged, so the next Store makes it anew.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Sets how long a call waits for another process's transaction.
  void set_lock_wait(std::chrono::milliseconds longest) { database_.set_lock_wait(longest); }
  // Throws ResultsUnavailable if nothing can be recorded now.
  void check_is_writable();

  // Sets another receiver of warnings about files.
  void tell_of_files(WarnOfFile warn) { warn_ = std::move(warn); }
  // Records the news in the files of the results. Makes the index anew if it was deleted,
  // replaced or damaged. Throws ResultsUnavailable, too, if the folder is no longer there.
  void sync();
  // Does the same for runs only, by their folders relative to the results. In a Batch, the index
  // is not made anew.
  void sync(const std::set<std::filesystem::path>& folders);

  // Joins all calls during its lifetime into one transaction: kept by commit(), else undone. Use it
  // only for calls in quick succession, because other writers wait until its end.
  struct Batch : Transaction {
    explicit Batch(Store& store) : Transaction(store.database_) {}
  };

  // Records the experiment and its runs in one transaction. Known runs (same experiment, point and
  // hash) keep their records. Other runs of the experiment stay in the database and leave its
  // current list. Throws std::runtime_error if the experiment was merged from elsewhere.
  // A run gets another folder than it wants if another run has that one. A known run keeps its
  // folder.
  std::vector<RunRecord> plan(const ExperimentRecord& experiment, std::span<const RunRecord> runs);
  // Adds a run to the current list.
  RunRecord plan_one_more(std::string_view experiment, const RunRecord& run);
  // Returns the run, in the current list or not, if it was ever planned.
  std::optional<RunRecord> recorded_run(std::string_view experiment, std::string_view point,
                                        std::string_view hash) const;
  // Returns the family's runs in all experiments except merged ones, sorted by value.
  std::vector<RunOfFamily> runs_of_family(std::string_view family) const;
  // Gives the run this status without an attempt. It lasts until an attempt begins or ends. If
  // `status` is cut short or failed, a run with a result keeps its result's status, because such an
  // end is not the run's own.
  void record_status(int64_t run_id, RunStatus status, std::string_view reason);
  std::optional<RunRecord> run(int64_t run_id) const;
  // Returns every run of every experiment, even those that left their experiment's list.
  std::vector<RunRecord> runs() const;
  // Returns every path in the specification of a run, with the run and its key.
  std::vector<InputOfRun> inputs_of_runs() const;
  // Returns a number that changes when another connection changes the database.
  int64_t version() const;
  // Throws std::runtime_error if the experiment's runs were merged from elsewhere. Nothing may be
  // planned, started or written there.
  void require_own(std::string_view experiment) const;
  // Returns the file that the experiment was last planned from, if any.
  std::optional<std::filesystem::path> experiment_file(std::string_view experiment) const;

  // Returns every experiment that was ever planned, by name, without its text.
  std::vector<ExperimentRecord> experiments() const;

  // Begins a new attempt with the status running. Its number is `wanted` if no attempt of the run
  // has it, else the next one.
  int begin_attempt(int64_t run_id, const AttemptStart& start, int wanted = 1);
  // Adds a rank's events; idempotent on (run, attempt, rank, sequence).
  void ingest(int64_t run_id, int attempt, int rank, std::span<const Event> events);
  // Adds all ranks' events, as EventTail::poll returns them, in one transaction, or in none if
  // nothing is new. `skipped_lines` counts each rank's lost lines, as in EventTail.
  void ingest(int64_t run_id, int attempt, std::span<const std::vector<Event>> events_of_ranks,
              std::span<const int64_t> skipped_lines = {});
  // Ends an attempt. The log of `reason_rank` tells more; -1: no rank. The run takes the status of
  // its newest attempt that was not cut short, else of its newest attempt. May be called again when
  // more is known.
  void end_attempt(int64_t run_id, int attempt, RunStatus status, std::string_view reason,
                   int64_t ended_unix_ms, int reason_rank = -1);

  // Records events that ranks wrote after the attempt's end. Returns false if there are none.
  bool read_late_events(int64_t run_id, int attempt);
  // Gives an ended attempt, and its run, the status running again.
  void reopen_attempt(int64_t run_id, int attempt);

  // Returns the experiment's attempts with the status running, even if their run has left the
  // current list. Attempts of open jobs are left out, because they may well be running.
  std::vector<RunningAttempt> running_attempts(std::string_view experiment) const;

  // Records a job with its tasks, before sbatch is called, and again when it changes. Returns its
  // id, which is new if job.id is 0.
  int64_t record_job(const JobRecord& job);
  void set_slurm_job(int64_t job, std::string_view slurm_job);
  // Forgets a job that Slurm refused, or that never reached Slurm. Its runs stay as they are.
  void forget_job(int64_t job);
  // Updates or adds the task with this number. Each call is one transaction; use a Batch for
  // several.
  void update_task(int64_t job, const JobTask& task);
  // Returns the jobs with a task that is not over, with all their tasks, the newest last.
  // `experiment` is empty for all.
  std::vector<JobRecord> open_jobs(std::string_view experiment) const;
  // Returns the runs that the job began without a task for them: it has chosen them by itself.
  std::vector<RunRecord> runs_chosen_by(const JobRecord& job) const;
  // Returns every job ever submitted for the run, with the run's task only, the newest last.
  std::vector<JobRecord> jobs_of_run(int64_t run_id) const;

  // Return the views `comparison` and `comparison_per_rank`, in order; an empty `experiment` means
  // all. Listed::kEver adds runs that left their experiment's list. Neither function reads steps,
  // because ingest() keeps figures up to date. Figures of a running attempt lack at most 1/64 of
  // its events.
  std::vector<ComparisonRow> comparison(std::string_view experiment,
                                        Listed listed = Listed::kNow) const;
  std::vector<RankRow> comparison_per_rank(std::string_view experiment,
                                           Listed listed = Listed::kNow) const;

  // Returns every run of the current lists, in order; an empty `experiment` means all. Reads no
  // steps: a running run has the figures of its last summary, if any.
  std::vector<StatusRow> statuses(std::string_view experiment) const;

  // Returns, in order, the attempts that together did the run's steps up to the last one of
  // `attempt`. Each resumed from a checkpoint of the attempt before. If two attempts reached the
  // checkpoint's step, the newer one counts.
  std::vector<Stretch> stretches(int64_t run_id, int attempt) const;
  // Returns the loss of each step from the run's first one on, as rank 0 reported it. Every rank
  // reports the same.
  std::vector<StepLoss> losses(int64_t run_id, int attempt) const;
  // Returns an attempt's events of the kind StepDone, EvaluationDone, CheckpointDone or
  // DeviceSample, ordered by rank and then by step or event: at most `most` of those after `after`;
  // -1, null: all.
  template <typename Body>
  std::vector<Recorded<Body>> events(int64_t run_id, int attempt, int most = -1,
                                     const Recorded<Body>* after = nullptr) const;
  // Returns the attempt's highest peak of allocated memory on any rank. nullopt: none was reported.
  std::optional<MemoryPeak> memory_peak(int64_t run_id, int attempt) const;
  // Returns the newest steps of one rank, at most `count`, the last one last.
  std::vector<StepDone> newest_steps(int64_t run_id, int attempt, int rank, int count) const;
  // Returns the last sample of each device of each node.
  std::vector<Recorded<DeviceSample>> newest_device_samples(int64_t run_id, int attempt) const;
  // Returns what each rank reported at its start, in order of rank. Leaves out ranks that have not
  // reported.
  std::vector<RunStarted> rank_facts(int64_t run_id, int attempt) const;

  // Returns the attempts in their order; none if there is no such run.
  std::vector<AttemptRecord> attempts(int64_t run_id) const;
  // Returns an empty record for unknown attempts and runs, and if none was recorded.
  Provenance provenance(int64_t run_id, int attempt) const;
  std::string experiment_text(int64_t run_id, int attempt) const;  // the file as it was
  std::string spec_text(int64_t run_id) const;                     // spec() as YAML
  // Returns the run's recorded specification. Defaults complete one of an older version.
  RunSpec spec(int64_t run_id) const;

  // True if one of the run's attempts is running, or it waits or runs in an open job. A merged run
  // is never under way here.
  bool is_under_way(int64_t run_id) const;
  // Forgets a run whose folder is gone, and takes it out of the files of its jobs.
  void forget_removed(const RunRecord& run);

  // Return the remembered digest of a file in this state, or the digests of all known states of a
  // canonical path.
  std::optional<std::string> digest(const FileState& file) const;
  std::vector<std::string> digests_of_path(std::string_view path) const;
  void remember_digest(const FileState& file, std::string_view digest);

 private:
  // The figures computed from an attempt's events so far.
  struct Figures {
    AttemptReports computed;
    std::map<int64_t, int64_t> last_sequences;  // by rank, of the last event in the figures
    int64_t events = 0;
    int64_t events_written = 0;  // number of events in the figures last written
  };

  // Returns the prepared statement of this SQL. It is prepared once and kept.
  Statement& sql(const std::string& text) const;

  RunRecord numbered(std::string_view experiment, const RunRecord& run) const;
  std::filesystem::path folder_for(std::string_view experiment, const RunRecord& run) const;
  // Throws std::runtime_error if there is no such run.
  std::filesystem::path folder_of(int64_t run_id) const;
  RunList list_of(std::string_view experiment) const;
  JobRecord job(int64_t id) const;

  // The parts of sync(). Places are relative to the results.
  using SyncOfPlace = void (Store::*)(const std::filesystem::path&);
  void sync_parts();
  const ResultsPart& part_of(const std::filesystem::path& place) const;
  bool is_place_of_run(const std::filesystem::path& folder) const;
  std::optional<RunRecord> read_run_of_part(const std::filesystem::path& folder) const;
  std::filesystem::path list_of_run(const RunRecord& run) const;
  // Throws std::runtime_error if the experiment is of another source.
  void require_source(const std::string& experiment, const std::string& source) const;
  void try_to_sync(const std::filesystem::path& place, SyncOfPlace sync);
  void sync_places(std::span<const std::filesystem::path> places, SyncOfPlace sync);
  std::vector<std::filesystem::path> unsettled(std::vector<std::filesystem::path> places) const;
  void sync_list(const std::filesystem::path& file);
  void sync_run(const std::filesystem::path& folder);
  void sync_job(const std::filesystem::path& folder);
  std::string keep_text(const ResultsPart& part, const std::string& digest);
  bool put_run_with_attempts(const RunRecord& run);
  bool gives_way(const RunRecord& run);
  int64_t put_run(const RunRecord& run);
  bool put_job(const std::filesystem::path& folder, const std::optional<JobRecord>& job);
  int64_t free_number(const std::string& table, int64_t wanted) const;
  bool sync_attempt(int64_t run, const RunPaths& paths, int attempt, const RunRecord& record);
  bool read_events(int64_t run, const RunPaths& paths, int attempt, int ranks);
  bool all_ranks_finished(int64_t run, int attempt, int ranks) const;
  void settle_figures(int64_t run, int attempt);
  void settle_status(int64_t run, const RunPaths& paths);
  void forget_run(int64_t run);
  void forget_attempt(int64_t run, int attempt);
  bool forget_attempts_if_one_is_gone(int64_t run, const RunPaths& paths);
  // True if the file or folder has the stamp of settle(). The stamp is taken before its contents
  // are read, so a change during the reading is seen later.
  bool is_settled(const std::filesystem::path& place) const;
  void settle(const std::filesystem::path& place, const std::string& stamp);
  void unsettle(const std::filesystem::path& place);

  std::vector<JobRecord> jobs(const std::string& condition, auto value) const;
  template <typename Row>
  std::vector<Row> rows_of(const std::string& view, std::string_view experiment) const;
  void ingest_rank(int64_t run_id, int attempt, int rank, std::span<const Event> events,
                   int64_t skipped_lines, Figures& figures);
  // Returns the figures in memory if they match the database's events, else computes them anew.
  // Another process may have written, or a transaction may have been rolled back.
  Figures& figures_of(int64_t run_id, int attempt);
  // Returns the run's specification as it was recorded.
  RunSpec recorded_spec(int64_t run_id) const;
  std::string place_of_spec(int64_t run_id) const;  // for errors
  AttemptReports read_figures(int64_t run_id, int attempt) const;
  void write_figures(int64_t run_id, int attempt, Figures& figures, bool has_ended);
  // If the attempt resumed from a checkpoint, sets the first losses to the run's, and includes
  // earlier evaluations in the best validation loss.
  void add_losses_before(AttemptSummary& summary, int64_t run_id, int attempt) const;

  // True if a call found the index damaged.
  bool is_damaged() const;
  // True if the index is damaged, or was deleted or replaced.
  bool is_lost() const;
  void reopen();
  void sync_all();
  // Writes the files of runs that a version without these files recorded (importer.cpp).
  void write_files();
  void write_files_of(RunRecord run);

  std::filesystem::path results_;  // empty: several folders
  StoreUse use_;
  WarnOfFile warn_;
  std::vector<ResultsPart> parts_{ResultsPart()};
  mutable Database database_;
  uint64_t inode_;  // of the database's file; 0: it is temporary
  mutable std::map<std::string, Statement> statements_;  // by SQL
  std::map<std::pair<int64_t, int>, Figures> figures_;   // of attempts that are being ingested
};

}  // namespace fsdp
