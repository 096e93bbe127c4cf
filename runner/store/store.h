#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/files/file_state.h"
#include "contract/record/event.h"
#include "contract/spec/run_spec.h"
#include "runner/store/attempts.h"
#include "runner/store/comparison.h"
#include "runner/store/results_database.h"
#include "runner/store/run_status.h"

// The SQLite database of a results folder: what was planned, what ran, what every rank reported.
namespace fsdp {

class Transaction;

struct ExperimentRecord {
  std::string name;
  std::string title;
  std::filesystem::path file;    // absolute
  std::string text;              // the file as it was
  std::string text_digest;       // of the text
  std::string profile;           // chosen one
  std::string compare = "loss";  // what its rows are compared by: "loss" or "throughput"
  std::string source{};          // whose results it was merged from; empty: it is of this folder
};

struct RunRecord {
  int64_t id = 0;
  std::string experiment;
  std::string point;
  std::string hash;
  std::filesystem::path folder;  // relative to the results folder
  RunStatus status = RunStatus::kPlanned;
  std::string reason;         // one line, empty when there is nothing to say
  int attempt = 0;            // the newest, 0: none
  std::string source{};       // whose results it was merged from; empty: it is of these
  bool current = true;        // whether it is in its experiment's list as last planned
  std::string data_digest{};  // of the contents of all input files
  int64_t repeat = 0;         // its number within the series

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("id", self.id);
    visit("experiment", self.experiment);
    visit("point", self.point);
    visit("hash", self.hash);
    visit("folder", self.folder);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("attempt", self.attempt);
    visit("source", self.source);
    visit("current", self.current);
    visit("data_digest", self.data_digest);
    visit("repeat", self.repeat);
  }
};

// A run of a family that ran out of memory.
struct KnownOutOfMemory {
  int64_t run = 0;
  int attempt = 0;
  std::string experiment;
  std::string point;
  int64_t value = 0;        // of the family's key
  std::string device_kind;  // as AttemptStart has it
};

// An attempt that begin_attempt recorded and end_attempt did not: another runner works on it, or
// its runner was killed. To close the latter: ingest the rest of its events files, then
// end_attempt with what status_from_events(rank_ends(...)) says.
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

// A part of a run's course: an attempt, and the last of its steps that counts.
struct Stretch {
  int attempt = 0;
  int64_t last_step = std::numeric_limits<int64_t>::max();
};

// Belongs to one thread. Several processes may hold one on the same folder: each call is one
// transaction, and waits up to 10 s for the others', or as it is told. Every call may throw
// ResultsUnavailable that names the file and what to do (a full disk, a file that cannot be
// written, a lock held for too long); what was recorded before stays, and the call may be made
// again.
class Store {
 public:
  // Opens <results>/results.sqlite, or makes it, as open_results says.
  explicit Store(const std::filesystem::path& results, StoreUse use = StoreUse::kCreate);
  ~Store();

  // How long a call waits for another process's transaction.
  void set_lock_wait(std::chrono::milliseconds longest);
  // Throws ResultsUnavailable when nothing can be recorded for now.
  void check_is_writable();

  // While one lives, all that is recorded is one transaction: kept by commit(), else undone. For
  // calls that follow each other closely, because other writers wait until its end.
  class Batch {
   public:
    explicit Batch(Store& store);
    ~Batch();
    void commit();

   private:
    std::unique_ptr<Transaction> transaction_;
  };

  // Records the experiment and its runs in one transaction; runs that are there (same experiment,
  // point and hash) keep what was recorded. Other runs of the experiment stay in the database and
  // leave its current list. Throws std::runtime_error when the experiment was merged from
  // elsewhere.
  struct PlannedRun {
    std::string point;
    RunSpec spec;  // resolved
    std::string hash;
    // What it wants; the record says what it has: no other run has that, and a run that is there
    // keeps the one that was recorded.
    std::filesystem::path folder;
    int64_t position = 0;       // in the experiment's list
    std::string series{};       // the point without the number of the repeat
    int64_t repeat = 0;         // within the series, from 0
    std::string data_digest{};  // of the contents of all input files
    std::string loss_digest{};  // runs in which it is equal must have equal losses
    // Runs that differ in one doubled key only: their name, the key and this run's value of it.
    std::string family{};
    std::string family_key{};
    std::optional<int64_t> family_value{};
  };
  std::vector<RunRecord> plan(const ExperimentRecord& experiment, std::span<const PlannedRun> runs);
  // Adds a run to the current list.
  RunRecord plan_one_more(std::string_view experiment, const PlannedRun& run);
  // The run, in the current list or not, if it was ever planned.
  std::optional<RunRecord> recorded_run(std::string_view experiment, std::string_view point,
                                        std::string_view hash) const;
  // Of the experiment's runs of a doubled key's family that finished or did not fit: the key's
  // values, ascending.
  std::vector<int64_t> values_with_result(std::string_view experiment,
                                          std::string_view family) const;
  // Returns the family's runs, in all experiments, that ran out of memory in the newest attempt
  // that was not cut short. They are sorted by value.
  std::vector<KnownOutOfMemory> known_out_of_memory(std::string_view family) const;
  // Gives the run this status without an attempt, until one begins or ends. A status that says
  // nothing of the run itself (is_cut_short), and a failure, which without an attempt is its job's,
  // hide no result: the run keeps that.
  void record_status(int64_t run_id, RunStatus status, std::string_view reason);
  std::optional<RunRecord> run(int64_t run_id) const;
  // Every run of every experiment, also those that left their experiment's list.
  std::vector<RunRecord> runs() const;
  // Whether another run has the folder of this one, as runs of versions up to 5 may.
  bool shares_folder(const RunRecord& run) const;
  // Throws std::runtime_error when the experiment's runs were merged from elsewhere: nothing is
  // planned, started or written there.
  void require_own(std::string_view experiment) const;
  // The file that the experiment was last planned from, if it ever was.
  std::optional<std::filesystem::path> experiment_file(std::string_view experiment) const;

  // Every experiment that was ever planned, by name, without its text.
  std::vector<ExperimentRecord> experiments() const;

  // A new attempt, status running. Its number is the next, and at least `first`.
  int begin_attempt(int64_t run_id, const AttemptStart& start, int first = 1);
  // Adds what a rank reported; idempotent on (run, attempt, rank, sequence).
  void ingest(int64_t run_id, int attempt, int rank, std::span<const Event> events);
  // Adds what all ranks reported, as EventTail::poll returns it: one transaction, none when there
  // is nothing new. `skipped_lines` is EventTail's: how many lines of each rank were lost.
  void ingest(int64_t run_id, int attempt, std::span<const std::vector<Event>> events_of_ranks,
              std::span<const int64_t> skipped_lines = {});
  // `reason_rank` is the rank whose log says more, -1: none. The run takes over the status of its
  // newest attempt that was not cut short, if there is one, else of its newest. Called again when
  // more is known of the end.
  void end_attempt(int64_t run_id, int attempt, RunStatus status, std::string_view reason,
                   int64_t ended_unix_ms, int reason_rank = -1);

  // The experiment's attempts whose status is running, whether their run is in the current list or
  // not; but none of a job that is open, which may well be running.
  std::vector<RunningAttempt> running_attempts(std::string_view experiment) const;

  // A job with its tasks, before sbatch is asked; returns its id.
  int64_t record_job(const JobRecord& job);
  void set_slurm_job(int64_t job, std::string_view slurm_job);
  // Forgets a job that Slurm refused, or that never reached it; its runs stay as they are.
  void forget_job(int64_t job);
  // By the number of the task, which the job may not have had yet. One transaction a call: several
  // are best made in a Batch.
  void update_task(int64_t job, const JobTask& task);
  // Those with a task that is not over, of one experiment or (empty) of all, with all their tasks,
  // the newest last.
  std::vector<JobRecord> open_jobs(std::string_view experiment) const;
  // The open job of the mode allocation that comes to this run by itself, as it does to the values
  // of a doubled key: the newest one with runs of the family, of which this one is none.
  std::optional<int64_t> allocation_that_comes_to(int64_t run_id) const;
  // Every job that was ever submitted for the run, each with the run's task only, the newest last.
  std::vector<JobRecord> jobs_of_run(int64_t run_id) const;

  // What was ingested about the end of each rank; one entry per rank of the run.
  std::vector<RankEnd> rank_ends(int64_t run_id, int attempt) const;

  // The views `comparison` and `comparison_per_rank`, of one experiment or (empty) of all, in
  // order; with Listed::kEver those rows too that left their experiment's list. Reads no steps:
  // figures are kept up to date by ingest, those of a running attempt as of 1/64 of its events ago
  // at most.
  std::vector<ComparisonRow> comparison(std::string_view experiment,
                                        Listed listed = Listed::kNow) const;
  std::vector<RankRow> comparison_per_rank(std::string_view experiment,
                                           Listed listed = Listed::kNow) const;

  // Every run of the current lists of one experiment or (empty) of all, in order. Reads no steps:
  // the figures of a run that is under way are those of its last summary, if there is one.
  std::vector<StatusRow> statuses(std::string_view experiment) const;

  // The attempt and, before it, those up to the checkpoint that it went on from, in their order: a
  // curve over all steps of a run is made of these. Of two that reached the checkpoint's step the
  // newer one counts.
  std::vector<Stretch> stretches(int64_t run_id, int attempt) const;
  // The loss of each step from the run's first one on, as rank 0 reported it: every rank reports
  // the same.
  std::vector<StepLoss> losses(int64_t run_id, int attempt) const;
  // What one attempt reported, of StepDone, EvaluationDone, CheckpointDone or DeviceSample, in the
  // order of ranks and of their steps or events.
  template <typename Body>
  std::vector<Recorded<Body>> events(int64_t run_id, int attempt) const;
  // The newest steps of one rank, at most `count`, the last one last.
  std::vector<StepDone> newest_steps(int64_t run_id, int attempt, int rank, int count) const;
  // The last one of each device of each node.
  std::vector<Recorded<DeviceSample>> newest_device_samples(int64_t run_id, int attempt) const;
  // Of the ranks that have reported, in their order.
  std::vector<RunStarted> rank_facts(int64_t run_id, int attempt) const;

  // In their order; none when there is no such run.
  std::vector<AttemptRecord> attempts(int64_t run_id) const;
  // Empty for attempts and runs that are not there, and where it was not recorded.
  Provenance provenance(int64_t run_id, int attempt) const;
  std::string experiment_text(int64_t run_id, int attempt) const;  // the file as it was
  std::string spec_text(int64_t run_id) const;                     // run.yaml as it was
  // run.yaml, read: what an older version wrote is completed with the defaults.
  RunSpec spec(int64_t run_id) const;

  // Forgets all of a run; false, and nothing happens, when one of its attempts is running or it
  // waits or runs in a job that is open.
  bool delete_run(int64_t run_id);
  // Forgets a checkpoint of the run, by its path relative to the run's folder.
  void delete_checkpoint(int64_t run_id, const std::filesystem::path& path);

  // The digest that is remembered of a file in this state, and those of every state that a path
  // (canonical) was ever in.
  std::optional<std::string> digest(const FileState& file) const;
  std::vector<std::string> digests_of_path(std::string_view path) const;
  void remember_digest(const FileState& file, std::string_view digest);

  // A database of its own of all that planning looks at: everything but what ranks measured. Not
  // while a Batch lives.
  void write_planning_copy(const std::filesystem::path& file) const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

}  // namespace fsdp
