#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/run/attempt.h"
#include "runner/run/earlier_attempts.h"
#include "runner/store/store.h"

namespace fsdp {

// Keeps the attempts of a loop in files of the results folder: launch.json begins an attempt, ranks
// append their events, end.json ends it. Outside of jobs, verdict.json says how it ended; in jobs,
// the runner that follows the job writes it, because Slurm knows more.
class Journal {
 public:
  // `owner` is the submission that the job belongs to; empty outside of jobs.
  Journal(std::filesystem::path results, FileDigests& digests, FollowUp follow_up,
          std::string owner = "");

  // True unless another caller has taken the run since the job was submitted.
  bool may_begin(const RunRecord& run) const;

  // Begins an attempt, and returns its number. Prepares the run's folder. If the run cannot start,
  // sets `problem`. Throws errors that may pass (may_pass); then no attempt has begun.
  int begin(const RunRecord& run, const AttemptStart& start, std::string& problem);
  // Ends an attempt after all its events are read, and returns how it ended. Fills in the rest of
  // `end`. If it throws, a later call continues.
  Verdict end(const OpenAttempt& attempt, AttemptEnd& end);
  // Returns a run that follows an ended run; nullopt: there is no more. If it throws, a later call
  // continues.
  std::optional<RunRecord> next_follower();

 private:
  std::filesystem::path results_;
  FileDigests& digests_;
  FollowUp follow_up_;
  std::string owner_;
  std::map<int64_t, int> claimed_{};  // by run: attempts that have a folder but have not begun
  std::deque<RunRecord> ended_{};     // not followed up yet
};

}  // namespace fsdp
