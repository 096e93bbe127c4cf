#include "runner/commands/queue_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "contract/files/scratch_folder.h"
#include "contract/spec/run_spec.h"
#include "contract/spec/yaml_value.h"
#include "runner/cluster/request.h"
#include "runner/cluster/script.h"
#include "runner/cluster/slurm.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kPatienceOfCheck{3};

// Returns the script as it would be submitted, except for names that Slurm ignores.
SlurmScript script_of(const Run& run, int64_t tasks, const std::filesystem::path& folder) {
  return {.slurm = run.spec.slurm,
          .request = slurm_request(run.spec),
          .experiment = "check",
          .token = "check",
          .folder = folder,
          .runner = std::filesystem::read_symlink("/proc/self/exe"),
          .working_directory = std::filesystem::current_path(),
          .array_tasks = tasks,
          .keeps_checkpoints = wants_checkpoints(run.spec)};
}

// Returns the scripts to ask about. An allocation is one job with room for each of its runs.
std::vector<SlurmScript> scripts_of(const std::vector<Run>& runs,
                                    const std::filesystem::path& folder) {
  std::vector<SlurmScript> scripts;
  if (runs.front().spec.slurm.mode == SlurmMode::kAllocation) {
    std::vector<SlurmRequest> requests;
    for (const Run& run : runs) requests.push_back(slurm_request(run.spec));
    scripts.push_back(script_of(runs.front(), 0, folder));
    scripts.back().request = largest(requests);
    return scripts;
  }
  for (const auto& [run, tasks] : arrays_of(runs)) {
    scripts.push_back(script_of(*run, tasks, folder));
  }
  return scripts;
}

// Returns why a job would wait in its partition for ever; empty: no reason is known. Slurm accepts
// such a job unless it enforces limits.
std::string limit_passed(const std::vector<Partition>& partitions, const SlurmScript& script) {
  const std::string& wanted = script.slurm.partition;
  const auto found = std::ranges::find_if(partitions, [&](const Partition& partition) {
    return wanted.empty() ? partition.is_default : partition.name == wanted;
  });
  if (found == partitions.end()) return "";
  const Partition& partition = *found;
  if (partition.state != "UP") {
    return fmt::format("partition {} is {}; set another slurm.partition (`sinfo -s`)",
                       partition.name, partition.state);
  }
  if (partition.most_nodes && script.request.nodes > *partition.most_nodes) {
    return fmt::format(
        "it asks for {}, and partition {} gives a job at most {}; lower strategy.ranks or "
        "slurm.nodes, or set another slurm.partition (`sinfo -s`)",
        counted(script.request.nodes, "node"), partition.name, *partition.most_nodes);
  }
  const auto limit_s = seconds_of(partition.time_limit);
  const auto wanted_s = seconds_of(script.slurm.time);
  if (!limit_s || !wanted_s || *wanted_s <= *limit_s) return "";
  return fmt::format(
      "it asks for {}, and partition {} gives a job at most {}; lower slurm.time or set another "
      "slurm.partition (`sinfo -s`)",
      script.slurm.time, partition.name, partition.time_limit);
}

std::string first_name(const std::vector<Run>& runs, const SlurmScript& script) {
  const auto run = std::ranges::find_if(runs, [&](const Run& each) {
    return slurm_request(each.spec) == script.request && each.spec.slurm == script.slurm;
  });
  return run == runs.end() ? "the job" : run->point;
}

}  // namespace

std::vector<std::pair<const Run*, int64_t>> arrays_of(const std::vector<Run>& runs) {
  std::vector<std::pair<const Run*, int64_t>> arrays;
  for (const Run& run : runs) {
    const auto same = std::ranges::find_if(
        arrays, [&](const auto& array) { return may_share_array(array.first->spec, run.spec); });
    if (same == arrays.end()) {
      arrays.emplace_back(&run, 1);
    } else {
      ++same->second;
    }
  }
  return arrays;
}

QueueCheck check_queue(const Expansion& expansion) {
  QueueCheck check;
  if (expansion.runs.empty()) return check;
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch.path() / kScriptName;
  SlurmQueue queue(kPatienceOfCheck);
  try {
    const std::vector<Partition> partitions = queue.partitions();
    for (const SlurmScript& script : scripts_of(expansion.runs, scratch.path())) {
      const std::string name =
          first_name(expansion.runs, script) + (script.array_tasks > 1 ? " and others" : "");
      std::ofstream(file) << render_script(template_text(script.slurm), script);
      if (const std::string limit = limit_passed(partitions, script); !limit.empty()) {
        check.refused.push_back(fmt::format("the job of {} would never start: {}", name, limit));
      } else if (const auto refusal = queue.refusal(file)) {
        check.refused.push_back(
            fmt::format("Slurm would refuse the job of {}: {}", name, *refusal));
      }
    }
  } catch (const std::runtime_error& error) {  // Slurm is not here, or does not answer
    check.not_known =
        fmt::format("what this cluster allows is not known: {}; check again where `sinfo` answers",
                    error.what());
  }
  return check;
}

}  // namespace fsdp
