#pragma once

#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/run/attempt.h"
#include "runner/run/earlier_attempts.h"
#include "runner/store/store.h"

namespace fsdp {

// Keeps the attempts of a loop in files of the results folder: launch.json begins an attempt, ranks
// append their events, end.json ends it. A process with a database reads the files later. A job has
// only the files.
class Journal {
 public:
  // `owner` is the submission that the job belongs to; empty outside of jobs.
  Journal(std::filesystem::path results, FileDigests& digests, FollowUp follow_up,
          std::string owner = "");
  virtual ~Journal() = default;

  // True unless another caller has taken the run since the job was submitted.
  bool may_begin(const RunRecord& run) const;

  // Begins an attempt, and returns its number. Prepares the run's folder. If the run cannot start,
  // sets `problem`. Throws errors that may pass (may_pass); then no attempt has begun.
  virtual int begin(const RunRecord& run, const AttemptStart& start, std::string& problem);
  // Takes new events, which were read from the files of the attempt's ranks.
  virtual void append(const OpenAttempt& attempt, std::vector<std::vector<Event>> events);
  // Ends an attempt after all its events are read, and returns how it ended. Fills in the rest of
  // `end`. If it throws, a later call continues.
  virtual Ending end(const OpenAttempt& attempt, AttemptEnd& end);
  // Brings the database up to date, if there is one. Returns the runs that follow the ended runs if
  // `wants_followers` is true.
  virtual std::vector<RunRecord> record(bool wants_followers);

 protected:
  const std::filesystem::path& results() const { return results_; }
  FileDigests& digests() { return digests_; }
  // Adds the run that follows, if any.
  void follow(const RunRecord& ended, RunStatus status, std::vector<RunRecord>& followers) const;
  // Returns the least number for a new attempt.
  virtual int first_attempt(const RunRecord& run) const { return run.attempt + 1; }

 private:
  std::filesystem::path results_;
  FileDigests& digests_;
  FollowUp follow_up_;
  std::string owner_;
  std::map<int64_t, int> claimed_{};  // by run: attempts that have a folder but have not begun
  std::deque<RunRecord> ended_{};     // not followed up yet
  std::vector<RunRecord> followers_{};
};

// Also records the attempts in the database. While the database cannot be written, attempts begin
// and end in their files, and a later record() adds them to the database.
class StoreJournal : public Journal {
 public:
  StoreJournal(Store& store, std::filesystem::path results, FileDigests& digests,
               FollowUp follow_up);

  int begin(const RunRecord& run, const AttemptStart& start, std::string& problem) override;
  void append(const OpenAttempt& attempt, std::vector<std::vector<Event>> events) override;
  Ending end(const OpenAttempt& attempt, AttemptEnd& end) override;
  std::vector<RunRecord> record(bool wants_followers) override;

 protected:
  int first_attempt(const RunRecord& run) const override;

 private:
  // An attempt whose end is not recorded.
  struct Entry {
    RunRecord run;
    int attempt;
    AttemptStart start;
    std::vector<std::vector<Event>> events{};  // not recorded yet
    std::vector<int64_t> skipped_lines{};      // as in EventTail
    bool is_behind = false;                    // `events` lacks events that only the files have
    bool is_begun = false;                     // in the database
    std::optional<AttemptEnd> end{};
    Ending ending{};
    bool is_end_in_file = false;
  };

  Entry& open_entry(int64_t run);
  void try_to_write_end(Entry& entry) const;
  // Records the events in the attempt's files, in several transactions.
  void catch_up(Entry& entry);

  Store& store_;
  std::list<Entry> entries_;
};

}  // namespace fsdp
