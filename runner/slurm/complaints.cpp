#include "runner/slurm/complaints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <ranges>
#include <utility>
#include <vector>

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kSubmissionFailed = "Batch job submission failed: ";

bool has_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::ranges::any_of(phrases, [&](auto phrase) { return text.find(phrase) != text.npos; });
}

constexpr std::string_view kGpuRemedy =
    "set slurm.gpu_type, slurm.gpus_per_node or slurm.gpu_request to what `sinfo -o '%P %G'` lists";

// Phrases of Slurm 22.05's errors and their remedies. More specific phrases come first.
constexpr std::pair<std::string_view, std::string_view> kRemedies[] = {
    {"accounting/QOS policy",
     "the site's limits for you: lower slurm.time, slurm.nodes, slurm.gpus_per_node or slurm.mem, "
     "or choose another slurm.qos"},
    {"partition name", "set slurm.partition to one that `sinfo -s` lists"},
    {"account",
     "set slurm.account, and slurm.partition, to what `sacctmgr show associations user=$USER` "
     "lists"},
    {"qos specification",
     "set slurm.qos to one that `sacctmgr show associations user=$USER` lists"},
    {"time limit", "set slurm.time to at most the partition's limit, which `sinfo -s` lists"},
    {"time specification", "write slurm.time as D-HH:MM:SS"},
    {"reservation", "set slurm.reservation to one that `scontrol show reservation` lists for you"},
    {"generic resource", kGpuRemedy},
    {"GRES", kGpuRemedy},
    {"feature specification", "set slurm.constraint to features that `sinfo -o '%P %f'` lists"},
    {"node name", "set slurm.exclude to nodes that `sinfo -N` lists"},
    {"emory specification", "lower slurm.mem to what a node has: `sinfo -o '%P %m'`, in MiB"},
    {"node configuration",
     "no node has all of slurm.gpus_per_node, cpus_per_task, mem and constraint: see `sinfo -o '%P "
     "%D %c %m %G %f'`"},
    {"ode count", "set slurm.nodes to what the partition has: `sinfo -s`"},
    {"processors", "lower slurm.cpus_per_task or the ranks of a node"},
    {"CPU count", "lower slurm.cpus_per_task or the ranks of a node"},
    {"partition configuration", "set slurm.partition to one that `sinfo -s` lists as up"},
    {"not permitted to use this partition", "set another slurm.partition"},
    {"mail type", "set slurm.mail_type to words such as END,FAIL"},
    {"recognized option", "see slurm.sbatch_options"}};

}  // namespace

std::string plain_complaint(std::string_view error) {
  std::vector<std::string_view> lines;
  for (const auto part : error | std::views::split('\n')) {
    std::string_view line(part.begin(), part.end());
    for (const std::string_view prefix :
         {"sbatch: "sv, "squeue: "sv, "sacct: "sv, "scontrol: "sv, "scancel: "sv, "error: "sv,
          "fatal: "sv, kSubmissionFailed}) {
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    }
    if (!line.empty()) lines.push_back(line);
  }
  return fmt::to_string(fmt::join(lines, "; "));
}

bool says_unavailable(std::string_view complaint) {
  return has_any(complaint, {"Unable to contact slurm",
                             "Socket timed out",
                             "Zero Bytes were transmitted",
                             "Message receive failure",
                             "Unexpected message received",
                             "Connection refused",
                             "Connection timed out",
                             "Connection reset",
                             "connection failure",
                             "standby mode",
                             "Unable to connect",
                             "Unable to establish",
                             "Transport endpoint",
                             "authentication",
                             "name resolution",
                             "temporarily unable to accept job",
                             "temporarily unavailable",
                             "Unable to resolve",
                             "Could not establish a configuration source",
                             "munge",
                             "Munge"});
}

bool says_submission_failed(std::string_view error) {
  return error.find(kSubmissionFailed) != std::string_view::npos;
}

bool says_too_many_jobs(std::string_view complaint) {
  return has_any(complaint, {"SubmitJob", "MaxJobCount"});
}

bool says_job_is_gone(std::string_view complaint) {
  return has_any(complaint, {"Invalid job id specified", "Job/step already completing or completed",
                             "Job has already finished"});
}

bool says_out_of_memory(std::string_view complaint) {
  // "oom_kill" since Slurm 23.02
  return has_any(complaint, {": Out Of Memory", "oom-kill event", "oom_kill event"});
}

bool says_node_failed(std::string_view complaint) {
  return has_any(complaint, {"Node failure on ", "DUE TO NODE FAILURE"});
}

std::string remedy_for(std::string_view complaint) {
  for (const auto& [phrase, remedy] : kRemedies) {
    if (complaint.find(phrase) != std::string_view::npos) return std::string(remedy);
  }
  return "";
}

}  // namespace fsdp
