#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/scratch_folder.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "contract/spec/slurm_spec.h"
#include "contract/spec/yaml_value.h"
#include "runner/cluster/complaints.h"
#include "runner/cluster/queue.h"
#include "runner/cluster/request.h"
#include "runner/cluster/script.h"
#include "runner/commands/check.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"

// The part of `check` about jobs of Slurm that are not submitted yet.
namespace fsdp {
namespace {

// Returns the time limit of a job.
std::string time_text(const SlurmSpec& slurm) {
  return slurm.time.empty() ? "for the partition's time limit" : "for at most " + slurm.time;
}

std::string job_text(const SlurmRequest& request) {
  const std::string ranks = request.gpus_per_node == 0 ? counted(request.ranks_per_node, "rank")
                                                       : counted(request.gpus_per_node, "GPU");
  return fmt::format("{} with {}", counted(request.nodes, "node"), ranks);
}

constexpr std::chrono::seconds kPatienceOfCheck{3};

// Runs that are submitted together.
struct Submission {
  const Run* first;
  int64_t runs;
  SlurmRequest request;
  bool is_array;  // of a task for each run; false: one job
};

std::vector<Submission> submissions_of(const std::vector<Run>& runs) {
  const bool is_one_job = runs.front().spec.slurm.mode == SlurmMode::kAllocation;
  std::vector<Submission> submissions;
  for (const Run& run : runs) {
    const SlurmRequest request = slurm_request(run.spec);
    const auto same = std::ranges::find_if(submissions, [&](const Submission& other) {
      return is_one_job || may_share_array(other.first->spec, run.spec);
    });
    if (same == submissions.end()) {
      submissions.push_back({&run, 1, request, /*is_array=*/!is_one_job});
    } else {
      ++same->runs;
      same->request = largest({same->request, request});
    }
  }
  return submissions;
}

// Returns the script of the first job as it would be submitted, except for the folder's name and
// jobs to wait for.
SlurmScript script_of(const Submission& submission, const std::string& experiment,
                      int64_t most_tasks, const std::filesystem::path& folder) {
  const RunSpec& spec = submission.first->spec;
  return {.slurm = spec.slurm,
          .request = submission.request,
          .experiment = experiment,
          .folder = folder,
          .runner = std::filesystem::read_symlink("/proc/self/exe"),
          .working_directory = std::filesystem::current_path(),
          .array_tasks = submission.is_array ? std::min(submission.runs, most_tasks) : 0,
          .keeps_checkpoints = wants_checkpoints(spec)};
}

// Returns the job's partition; one without a name if it is unknown.
Partition partition_of(const std::vector<Partition>& partitions, const SlurmScript& script) {
  const std::string& wanted = script.slurm.partition;
  const auto found = std::ranges::find_if(partitions, [&](const Partition& partition) {
    return wanted.empty() ? partition.is_default : partition.name == wanted;
  });
  return found == partitions.end() ? Partition() : *found;
}

// Returns the memory that a job without slurm.mem gets on each node. nullopt: all of it, or
// unknown.
std::optional<int64_t> default_memory_bytes(const MemoryLimits& limits, const SlurmScript& script) {
  const int64_t cpus = script.slurm.cpus_per_task * script.request.ranks_per_node;
  if (limits.default_mib_per_node) return *limits.default_mib_per_node << 20;
  if (limits.default_mib_per_cpu) return (*limits.default_mib_per_cpu * cpus) << 20;
  return std::nullopt;
}

// Returns which run needs more memory than the site gives the job by default; empty: none.
std::string default_memory_passed(const Preflight& preflight, const Submission& submission,
                                  const SlurmScript& script, std::optional<int64_t> bytes) {
  if (!bytes || !script.slurm.mem.empty()) return "";
  for (const PlannedRow& row : preflight.plans) {
    const bool is_in_job =
        !submission.is_array || may_share_array(submission.first->spec, row.spec);
    if (!is_in_job || !row.plan || row.plan->memory_node_bytes_max <= *bytes) continue;
    return fmt::format(
        "{} is predicted to take {} GiB of a node's memory, and Slurm gives the job {} GiB by "
        "default; set slurm.mem",
        row.point, gibibytes(static_cast<double>(row.plan->memory_node_bytes_max)),
        gibibytes(static_cast<double>(*bytes)));
  }
  return "";
}

// Returns why a job would wait in its partition for ever; empty: no reason is known. Slurm accepts
// such a job unless it enforces limits.
std::string limit_passed(const Partition& partition, const SlurmScript& script) {
  if (partition.name.empty()) return "";
  const auto passed = [&](const std::string& wanted, const std::string& most,
                          const std::string& remedy) {
    return fmt::format("it asks for {}, and partition {} gives a job at most {}; {}", wanted,
                       partition.name, most, remedy);
  };
  if (partition.state != "UP") {
    return fmt::format("partition {} is {}; {}", partition.name, partition.state,
                       remedy_for_reason("PartitionDown"));
  }
  if (partition.most_nodes && script.request.nodes > *partition.most_nodes) {
    return passed(counted(script.request.nodes, "node"), std::to_string(*partition.most_nodes),
                  remedy_for_reason("PartitionNodeLimit"));
  }
  const int64_t wanted_mib = node_memory_bytes(script.slurm).value_or(0) >> 20;
  if (wanted_mib > partition.memory.most_mib_per_node.value_or(wanted_mib)) {
    return passed(script.slurm.mem + " of memory",
                  fmt::format("{}M of each node", *partition.memory.most_mib_per_node),
                  remedy_for_refusal("Memory specification"));
  }
  const auto limit_s = seconds_of(partition.time_limit);
  const auto wanted_s = seconds_of(script.slurm.time);
  if (!limit_s || !wanted_s || *wanted_s <= *limit_s) return "";
  return passed(script.slurm.time, partition.time_limit, remedy_for_reason("PartitionTimeLimit"));
}

// Returns the hours of the steps of all runs by their plans, summed over ranks. nullopt: not all
// are known.
std::optional<double> planned_hours(const Preflight& preflight) {
  double hours = 0;
  for (const PlannedRow& row : preflight.plans) {
    if (!row.hours) return std::nullopt;
    const auto repeats = std::ranges::count(preflight.expansion.runs, row.point, &Run::series);
    hours += *row.hours * static_cast<double>(repeats * row.spec.strategy.ranks);
  }
  return preflight.plans.empty() ? std::nullopt : std::optional(hours);
}

// Returns what the jobs hold at most and, if plans tell, what their ranks use.
std::string cost_text(const Preflight& preflight) {
  const auto hours = planned_hours(preflight);
  return most_held_text(mapped(preflight.expansion.runs, &Run::spec)) +
         (hours ? fmt::format(
                      "; by the plans, the steps of all ranks together take about {:.3g} hours",
                      *hours)
                : "");
}

}  // namespace

std::string request_line(const Preflight& preflight) {
  if (!preflight.on_cluster || preflight.expansion.runs.empty()) return "";
  const std::vector<Submission> submissions = submissions_of(preflight.expansion.runs);
  std::vector<std::string> texts;
  for (const auto& [first, runs, request, is_array] : submissions) {
    texts.push_back(is_array
                        ? fmt::format("{} on {}, each {}", counted(runs, "task"), job_text(request),
                                      time_text(first->spec.slurm))
                        : fmt::format("{}, {}", job_text(request), time_text(first->spec.slurm)));
  }
  const std::string what =
      submissions.front().is_array
          ? fmt::format("{} in {}: {}", counted(std::ssize(preflight.expansion.runs), "job"),
                        counted(std::ssize(submissions), "array"), fmt::join(texts, "; "))
          : "one job for all runs, " + texts.front();
  return fmt::format("Slurm: {}; {}", what, cost_text(preflight));
}

std::string job_scripts(const std::string& list, const std::vector<Run>& runs,
                        const std::filesystem::path& results) {
  std::string text;
  if (runs.empty()) return text;
  const std::filesystem::path folder =
      std::filesystem::absolute(results) / "slurm" / (file_name_of(list) + "-TOKEN");
  for (const Submission& submission : submissions_of(runs)) {
    const SlurmScript script = script_of(submission, list, QueueLimits().max_array_size, folder);
    text += fmt::format("---\n# for {}, from '{}' on\njob_script: |\n",
                        counted(submission.runs, "run"), visible_line(submission.first->point));
    std::istringstream lines(render_script(template_text(script.slurm), script));
    for (std::string line; std::getline(lines, line);)
      text += line.empty() ? "\n" : "  " + line + '\n';
  }
  return text;
}

void check_queue(const Preflight& preflight, const Print& print) {
  const std::vector<Run>& runs = preflight.expansion.runs;
  if (runs.empty()) return;
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch.path() / kScriptName;
  const std::unique_ptr<Queue> queue = make_queue(kPatienceOfCheck);
  try {
    const std::vector<Partition> partitions = queue->partitions();
    for (const Submission& submission : submissions_of(runs)) {
      const SlurmScript script =
          script_of(submission, "check", queue->limits().max_array_size, scratch.path());
      const std::string name = submission.first->point + (submission.runs > 1 ? " and others" : "");
      std::ofstream(file) << render_script(template_text(script.slurm), script);
      const Partition partition = partition_of(partitions, script);
      const auto memory_bytes = default_memory_bytes(partition.memory, script);
      const std::string memory = default_memory_passed(
          preflight, submission, script,
          memory_bytes ? memory_bytes : default_memory_bytes(queue->memory(), script));
      if (!memory.empty()) print("warning: ", memory);
      if (const std::string limit = limit_passed(partition, script); !limit.empty()) {
        print("warning: ", fmt::format("the job of {} would never start: {}", name, limit));
      } else if (const auto refusal = queue->refusal(file)) {
        print("warning: ", fmt::format("Slurm would refuse the job of {}: {}", name, *refusal));
      }
    }
  } catch (const std::runtime_error& error) {  // Slurm is not here, or does not answer
    print("", fmt::format("the limits of this cluster are not known: {}; check again on a host "
                          "where `sinfo` answers",
                          error.what()));
  }
}

}  // namespace fsdp
