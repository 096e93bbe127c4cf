#include "runner/slurm/complaints.h"

#include <algorithm>
#include <array>
#include <utility>

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kSubmissionFailed = "Batch job submission failed: ";

template <size_t N>
bool has_any(std::string_view text, const std::array<std::string_view, N>& phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&](std::string_view phrase) {
    return text.find(phrase) != std::string_view::npos;
  });
}

// Slurm 22.05's words and what they are about, the more special ones first.
constexpr std::array kRemedies = {
    std::pair{"accounting/QOS policy"sv,
              "the site's limits for you: lower slurm.time, slurm.nodes, slurm.gpus_per_node or "
              "slurm.mem, or choose another slurm.qos"sv},
    std::pair{"partition name"sv, "set slurm.partition to one that `sinfo -s` lists"sv},
    std::pair{"account"sv,
              "set slurm.account, and slurm.partition, to what `sacctmgr show associations "
              "user=$USER` lists"sv},
    std::pair{"qos specification"sv,
              "set slurm.qos to one that `sacctmgr show associations user=$USER` lists"sv},
    std::pair{"time limit"sv,
              "set slurm.time to at most the partition's limit, which `sinfo -s` lists"sv},
    std::pair{"time specification"sv, "write slurm.time as D-HH:MM:SS"sv},
    std::pair{"reservation"sv,
              "set slurm.reservation to one that `scontrol show reservation` lists for you"sv},
    std::pair{"generic resource"sv,
              "set slurm.gpu_type, slurm.gpus_per_node or slurm.gpu_request to what `sinfo -o '%P "
              "%G'` lists"sv},
    std::pair{"GRES"sv,
              "set slurm.gpu_type, slurm.gpus_per_node or slurm.gpu_request to what `sinfo -o '%P "
              "%G'` lists"sv},
    std::pair{"feature specification"sv,
              "set slurm.constraint to features that `sinfo -o '%P %f'` lists"sv},
    std::pair{"node name"sv, "set slurm.exclude to nodes that `sinfo -N` lists"sv},
    std::pair{"emory specification"sv,
              "lower slurm.mem to what a node has: `sinfo -o '%P %m'`, in MiB"sv},
    std::pair{"node configuration"sv,
              "no node has all of slurm.gpus_per_node, cpus_per_task, mem and constraint: see "
              "`sinfo -o '%P %D %c %m %G %f'`"sv},
    std::pair{"ode count"sv, "set slurm.nodes to what the partition has: `sinfo -s`"sv},
    std::pair{"processors"sv, "lower slurm.cpus_per_task or the ranks of a node"sv},
    std::pair{"CPU count"sv, "lower slurm.cpus_per_task or the ranks of a node"sv},
    std::pair{"partition configuration"sv,
              "set slurm.partition to one that `sinfo -s` lists as up"sv},
    std::pair{"not permitted to use this partition"sv, "set another slurm.partition"sv},
    std::pair{"mail type"sv, "set slurm.mail_type to words such as END,FAIL"sv},
    std::pair{"recognized option"sv, "see slurm.sbatch_options"sv}};

}  // namespace

std::string plain_complaint(std::string_view error) {
  std::string complaint;
  while (!error.empty()) {
    std::string_view line = error.substr(0, error.find('\n'));
    error.remove_prefix(std::min(line.size() + 1, error.size()));
    for (const std::string_view prefix :
         {"sbatch: "sv, "squeue: "sv, "sacct: "sv, "scontrol: "sv, "scancel: "sv, "error: "sv,
          "fatal: "sv, kSubmissionFailed}) {
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    }
    if (line.empty()) continue;
    if (!complaint.empty()) complaint += "; ";
    complaint += line;
  }
  return complaint;
}

bool says_unavailable(std::string_view complaint) {
  static constexpr std::array kPhrases = {"Unable to contact slurm"sv,
                                          "Socket timed out"sv,
                                          "Zero Bytes were transmitted"sv,
                                          "Message receive failure"sv,
                                          "Unexpected message received"sv,
                                          "Connection refused"sv,
                                          "Connection timed out"sv,
                                          "Connection reset"sv,
                                          "connection failure"sv,
                                          "standby mode"sv,
                                          "Unable to connect"sv,
                                          "Unable to establish"sv,
                                          "Transport endpoint"sv,
                                          "authentication"sv,
                                          "name resolution"sv,
                                          "temporarily unable to accept job"sv,
                                          "temporarily unavailable"sv,
                                          "Unable to resolve"sv,
                                          "Could not establish a configuration source"sv,
                                          "munge"sv,
                                          "Munge"sv};
  return has_any(complaint, kPhrases);
}

bool says_submission_failed(std::string_view error) {
  return error.find(kSubmissionFailed) != std::string_view::npos;
}

bool says_too_many_jobs(std::string_view complaint) {
  static constexpr std::array kPhrases = {"SubmitJob"sv, "MaxJobCount"sv};
  return has_any(complaint, kPhrases);
}

bool says_job_is_gone(std::string_view complaint) {
  static constexpr std::array kPhrases = {"Invalid job id specified"sv,
                                          "Job/step already completing or completed"sv,
                                          "Job has already finished"sv};
  return has_any(complaint, kPhrases);
}

bool says_out_of_memory(std::string_view complaint) {
  // "oom_kill" since Slurm 23.02
  static constexpr std::array kPhrases = {": Out Of Memory"sv, "oom-kill event"sv,
                                          "oom_kill event"sv};
  return has_any(complaint, kPhrases);
}

bool says_node_failed(std::string_view complaint) {
  static constexpr std::array kPhrases = {"Node failure on "sv, "DUE TO NODE FAILURE"sv};
  return has_any(complaint, kPhrases);
}

std::string remedy_for(std::string_view complaint) {
  for (const auto& [phrase, remedy] : kRemedies) {
    if (complaint.find(phrase) != std::string_view::npos) return std::string(remedy);
  }
  return "";
}

}  // namespace fsdp
