#include "runner/run/journal.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "contract/record/run_paths.h"
#include "runner/run/attempt_files.h"
#include "runner/store/results_unavailable.h"

namespace fsdp {
namespace {

constexpr const char* kSincePlanned =
    " since the run was planned; run the experiment again, which plans it with the files as they "
    "are";

// A run that begins from another run's checkpoint goes on from its own.
RunSpec spec_of_attempt(RunSpec spec, const RunPaths& paths) {
  const bool is_from_elsewhere = !spec.resume.path.empty();
  if (is_from_elsewhere && newest_saved_step(paths)) spec.resume = {.is_auto = true, .path = {}};
  return spec;
}

}  // namespace

Journal::Journal(std::filesystem::path results, FileDigests& digests, FollowUp follow_up,
                 std::string owner)
    : results_(std::move(results)),
      digests_(digests),
      follow_up_(std::move(follow_up)),
      owner_(std::move(owner)) {}

bool Journal::may_begin(const RunRecord& run) const {
  return owner_.empty() || belongs_to(owner_, RunPaths(results_ / run.folder));
}

// Creates the folder before launch.json, so all files in an attempt's folder belong to that
// attempt. The newest attempt has the highest number.
int Journal::begin(const RunRecord& run, const AttemptStart& start, std::string& problem) {
  const auto changed = changed_input(digests_, run);
  check_are_there(results_);  // inputs may be in the folder
  const RunPaths paths(results_ / run.folder);
  const auto claimed = claimed_.find(run.id);
  int attempt = claimed == claimed_.end() ? std::max(run.attempt + 1, first_free_attempt(paths))
                                          : claimed->second;
  try {
    if (begins_anew(run)) set_checkpoints_aside(paths, std::max(run.attempt, 1));
    write_spec(paths, spec_of_attempt(run.spec, paths));
    if (owner_.empty()) take_run(paths, owner_);
    if (claimed == claimed_.end()) claimed_[run.id] = attempt = claim_attempt(paths, attempt);
    write_start(paths, attempt, start);
    claimed_.erase(run.id);
    if (changed) problem = *changed + kSincePlanned;
  } catch (const std::runtime_error& error) {
    if (may_pass(error)) throw;
    problem = error.what();
  }
  return attempt;
}

Verdict Journal::end(const OpenAttempt& attempt, AttemptEnd& end) {
  const RunRecord& run = attempt.run();
  const RunPaths paths(results_ / run.folder);
  const int number = attempt.attempt();
  const Verdict verdict =
      judge_and_check_inputs(results_, run, number, attempt.reports().ranks(), digests_, end);
  write_end(paths, number, end);
  if (owner_.empty()) write_verdict(paths, number, verdict);
  ended_.emplace_back(run).status = verdict.status;
  return verdict;
}

std::optional<RunRecord> Journal::next_follower() {
  std::optional<RunRecord> follower;
  for (; !ended_.empty() && !follower; ended_.pop_front()) {
    if (follow_up_) follower = follow_up_(ended_.front(), ended_.front().status);
  }
  return follower;
}

}  // namespace fsdp
