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
// attempt. In jobs, attempts take consecutive numbers, because import_attempts() stops at a gap.
// Elsewhere the newest attempt has the highest number.
int Journal::begin(const RunRecord& run, const AttemptStart& start, std::string& problem) {
  const auto changed = changed_input(digests_, run);
  check_are_there(results_);  // inputs may be in the folder
  const RunPaths paths(results_ / run.folder);
  const auto claimed = claimed_.find(run.id);
  int attempt = claimed == claimed_.end() ? first_attempt(run) : claimed->second;
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

void Journal::append(const OpenAttempt&, std::vector<std::vector<Event>>) {}  // files have them

Ending Journal::end(const OpenAttempt& attempt, AttemptEnd& end) {
  const RunRecord& run = attempt.run();
  const Ending ending =
      judge_and_check_inputs(results_, run, attempt.attempt(), attempt.rank_ends(), digests_, end);
  write_end(RunPaths(results_ / run.folder), attempt.attempt(), end);
  ended_.emplace_back(run).status = ending.status;
  return ending;
}

std::vector<RunRecord> Journal::record(bool wants_followers) {
  for (; !ended_.empty(); ended_.pop_front()) {
    if (wants_followers) follow(ended_.front(), ended_.front().status, followers_);
  }
  return std::exchange(followers_, {});
}

void Journal::follow(const RunRecord& ended, RunStatus status,
                     std::vector<RunRecord>& followers) const {
  if (!follow_up_) return;
  if (auto follower = follow_up_(ended, status)) followers.push_back(std::move(*follower));
}

StoreJournal::StoreJournal(Store& store, std::filesystem::path results, FileDigests& digests,
                           FollowUp follow_up)
    : Journal(std::move(results), digests, std::move(follow_up)), store_(store) {}

int StoreJournal::first_attempt(const RunRecord& run) const {
  return std::max(run.attempt + 1, first_free_attempt(RunPaths(results() / run.folder)));
}

int StoreJournal::begin(const RunRecord& run, const AttemptStart& start, std::string& problem) {
  const int attempt = Journal::begin(run, start, problem);
  entries_.push_back({.run = run, .attempt = attempt, .start = start});
  return attempt;
}

StoreJournal::Entry& StoreJournal::open_entry(int64_t run) {
  return *std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.run.id == run && !entry.end; });
}

void StoreJournal::append(const OpenAttempt& attempt, std::vector<std::vector<Event>> events) {
  Entry& entry = open_entry(attempt.run().id);
  entry.skipped_lines = attempt.skipped_lines();
  if (std::ranges::all_of(events, &std::vector<Event>::empty)) return;
  entry.is_behind |= !entry.events.empty();
  if (entry.is_behind) events.clear();
  entry.events = std::move(events);
}

Ending StoreJournal::end(const OpenAttempt& attempt, AttemptEnd& end) {
  const RunRecord& run = attempt.run();
  const Ending ending = judge_and_check_inputs(results(), run, attempt.attempt(),
                                               attempt.rank_ends(), digests(), end);
  Entry& entry = open_entry(run.id);
  entry.end = end;
  entry.ending = ending;
  try_to_write_end(entry);
  return ending;
}

// If the file cannot be written, the database may still take the end.
void StoreJournal::try_to_write_end(Entry& entry) const {
  try {
    write_end(RunPaths(results() / entry.run.folder), entry.attempt, *entry.end);
    entry.is_end_in_file = true;
  } catch (const std::system_error&) {
  }
}

// A run's end and the start of its successor are one transaction. In a sweep of short runs, waiting
// for the disk is most of a run's cost.
std::vector<RunRecord> StoreJournal::record(bool wants_followers) {
  for (Entry& entry : entries_) {
    if (entry.end && !entry.is_end_in_file) try_to_write_end(entry);
  }
  for (Entry& entry : entries_) {
    if (entry.is_behind) catch_up(entry);
  }
  const bool has_changes = std::ranges::any_of(
      entries_, [](const Entry& entry) { return !entry.is_begun || entry.end; });
  std::optional<Store::Batch> batch;
  if (has_changes) batch.emplace(store_);
  std::vector<RunRecord> followers;
  for (Entry& entry : entries_) {
    if (!entry.is_begun) store_.begin_attempt(entry.run.id, entry.start, entry.attempt);
    store_.ingest(entry.run.id, entry.attempt, entry.events, entry.skipped_lines);
    if (!entry.end) continue;
    const Ending& ending = entry.ending;
    store_.end_attempt(entry.run.id, entry.attempt, ending.status, ending.reason,
                       entry.end->ended_unix_ms, ending.reason_rank);
    if (wants_followers) follow(entry.run, ending.status, followers);
  }
  for (const auto& [state, digest] : digests().computed()) store_.remember_digest(state, digest);
  if (batch) batch->commit();
  digests().forget_computed();
  for (Entry& entry : entries_) {
    entry.is_begun = true;
    entry.events.clear();
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.end.has_value(); });
  return followers;
}

// Store::ingest skips events that the database already has.
void StoreJournal::catch_up(Entry& entry) {
  if (!entry.is_begun) store_.begin_attempt(entry.run.id, entry.start, entry.attempt);
  entry.is_begun = true;
  ingest_rest(store_, results(), entry.run, entry.attempt, [](const std::string&) {});
  entry.is_behind = false;
}

}  // namespace fsdp
