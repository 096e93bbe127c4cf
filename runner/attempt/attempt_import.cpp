#include "runner/attempt/attempt_import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ranges>

namespace fsdp {
namespace {

// Of the run's jobs, the newest that the attempt may be of; null: none.
const JobRecord* job_of(const std::vector<JobRecord>& jobs, const LaunchRecord& start) {
  const JobRecord* unanswered = nullptr;
  for (const JobRecord& job : jobs | std::views::reverse) {
    if (slurm_name(job, job.tasks.front().task) == start.job) return &job;
    if (job.slurm_job.empty() && !unanswered) unanswered = &job;
  }
  return unanswered;
}

AttemptStart attempt_start(const JobRecord& job, const LaunchRecord& start) {
  return {.started_unix_ms = start.started_unix_ms,
          .host = start.host,
          .provenance = job.provenance,
          .device_kind = job.tasks.front().device_kind,
          .slurm_job = start.job,
          .node_list = start.node_list};
}

int newest_attempt(const Store& store, const RunRecord& run) {
  const std::optional<RunRecord> record = store.run(run.id);
  return record ? record->attempt : 0;
}

// False: it is not there, or not for us. Opening asks the server, but not on mounts with nocto.
bool ask_server(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct statx status {};
  statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &status);
  close(descriptor);
  return true;
}

}  // namespace

std::vector<int> import_attempts(Store& store, const std::filesystem::path& results,
                                 const RunRecord& run, const WarnOfFile& warn,
                                 const std::optional<std::string>& slurm_job) {
  const RunPaths paths(results / run.folder);
  const auto is_there = [&](int attempt) {
    return std::filesystem::exists(paths.attempt(attempt));
  };
  if (!is_there(newest_attempt(store, run) + 1)) return {};

  std::vector<int> begun;
  Store::Batch batch(store);
  const std::vector<JobRecord> jobs = store.jobs_of_run(run.id);
  for (int attempt = newest_attempt(store, run) + 1; is_there(attempt); ++attempt) {
    const std::optional<LaunchRecord> start = read_launch_record(paths, attempt, warn);
    if (start && slurm_job && start->job != *slurm_job) continue;
    const JobRecord* job = start ? job_of(jobs, *start) : nullptr;
    if (job) begun.push_back(store.begin_attempt(run.id, attempt_start(*job, *start), attempt));
  }
  batch.commit();
  return begun;
}

void ask_again_for_names(const RunPaths& run, int attempt) {
  if (!ask_server(run.folder())) return;
  while (ask_server(run.attempt(attempt))) ++attempt;
}

}  // namespace fsdp
