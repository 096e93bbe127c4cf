#include "runner/cluster/complaints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <ranges>
#include <string_view>
#include <vector>

#include "runner/cluster/slurm.h"

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kSubmissionFailed = "Batch job submission failed: ";

bool has_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::ranges::any_of(phrases, [&](auto phrase) { return text.find(phrase) != text.npos; });
}

constexpr std::string_view kGpuRemedy =
    "set slurm.gpu_type, slurm.gpus_per_node or slurm.gpu_request to what `sinfo -o '%P %G'` lists";

// Advice for jobs that Slurm does not start.
struct Advice {
  std::string_view refusal;    // a phrase of sbatch's errors; empty: sbatch accepts the job
  std::string_view reason;     // how squeue's reason begins; empty: the job does not wait
  std::string_view problem{};  // why the job waits
  std::string_view remedy{};
};

// The words of Slurm 22.05. More specific refusals come first. Only reasons that do not pass by
// waiting have a line. Details may follow a reason ("ReqNodeNotAvail, UnavailableNodes:n1").
constexpr Advice kAdvice[] = {
    {"accounting/QOS policy", "", "",
     "stay within your site's limits: lower slurm.time, slurm.nodes, slurm.gpus_per_node or "
     "slurm.mem, or choose another slurm.qos"},
    {"partition name", "", "", "set slurm.partition to one that `sinfo -s` lists"},
    {"account", "InvalidAccount", "its account is not known",
     "set slurm.account, and slurm.partition, to what `sacctmgr show associations user=$USER` "
     "lists"},
    {"qos specification", "InvalidQOS", "its quality of service is not known",
     "set slurm.qos to one that `sacctmgr show associations user=$USER` lists"},
    {"time limit", "PartitionTimeLimit", "it asks for more time than the partition gives to a job",
     "lower slurm.time or set slurm.partition (`sinfo -s`)"},
    {"time specification", "", "", "write slurm.time as D-HH:MM:SS"},
    {"reservation", "ReservationDeleted", "its reservation is gone",
     "set slurm.reservation to one that `scontrol show reservation` lists for you"},
    {"generic resource", "", "", kGpuRemedy},
    {"GRES", "", "", kGpuRemedy},
    {"feature specification", "", "",
     "set slurm.constraint to features that `sinfo -o '%P %f'` lists"},
    {"node name", "", "", "set slurm.nodelist and slurm.exclude to nodes that `sinfo -N` lists"},
    {"license", "", "", "set slurm.licenses to some that `scontrol show licenses` lists"},
    {"dependency", "", "", "set slurm.dependency to jobs that `squeue` lists"},
    {"wckey", "", "", "set slurm.wckey to one that `sacctmgr show wckeys user=$USER` lists"},
    {"emory specification", "", "",
     "lower slurm.mem to what a node has (`sinfo -o '%P %m'`, in MiB) or set another "
     "slurm.partition"},
    {"node configuration", "BadConstraints", "",
     "no node has all of slurm.gpus_per_node, cpus_per_task, mem and constraint: see `sinfo -o '%P "
     "%D %c %m %G %f'`"},
    {"ode count", "PartitionNodeLimit",
     "it asks for more nodes, or fewer, than the partition gives to a job",
     "set strategy.ranks, slurm.nodes or another slurm.partition (`sinfo -s`)"},
    {"processors", "", "", "lower slurm.cpus_per_task or the ranks of a node"},
    {"CPU count", "", "", "lower slurm.cpus_per_task or the ranks of a node"},
    {"partition configuration", "PartitionDown", "the partition is down",
     "set another slurm.partition (`sinfo -s`)"},
    {"not permitted to use this partition", "AccountNotAllowed",
     "its account may not use the partition", "set slurm.account or another slurm.partition"},
    {"mail type", "", "", "set slurm.mail_type to words such as END,FAIL"},
    {"recognized option", "", "", "see slurm.sbatch_options"},
    {"", "PartitionInactive", "the partition takes no jobs",
     "set another slurm.partition (`sinfo -s`)"},
    {"", "PartitionConfig", "the partition does not allow what the job asks for",
     "set another slurm.partition, slurm.nodes or slurm.time (`scontrol show partition`)"},
    {"", "QOSNotAllowed", "its quality of service may not be used there",
     "set slurm.qos or slurm.partition"},
    {"", "ReqNodeNotAvail", "the nodes that it needs are down, drained or reserved",
     "see slurm.constraint, slurm.exclude and slurm.reservation (`sinfo -R`)"},
    {"", "NodeDown", "a node that it needs is down", "see `sinfo -R`"},
    {"", "Nodes required for job are DOWN",
     "all nodes that could run it are down, drained or reserved", "see `sinfo -R`"},
    {"", "DependencyNeverSatisfied", "a job that it depends on failed",
     "cancel it, and submit again"},
    {"", "JobHeldAdmin", "an administrator holds it", "ask the administrator, or cancel the job"},
    {"", "JobHeldUser", "it is held", "`scontrol release` lets it start"},
    {"", "job requeued in held state", "it was requeued, and is held",
     "`scontrol release` lets it start"},
    {"", "JobHoldMaxRequeue", "Slurm started it again too often and holds it",
     "see its output, then `scontrol release`"},
    {"", "launch failed requeued held", "it could not be started on its node, and Slurm holds it",
     "tell the administrators, then `scontrol release`"},
    {"", "JobLaunchFailure", "it could not be started on its node",
     "see its output, or tell the administrators"},
    {"", "RequiresReservation", "the partition is for reservations only",
     "set slurm.reservation or slurm.partition"},
    {"", "DeadLine", "its deadline has passed", "cancel it"},
    {"", "QOSUsageThreshold", "the account has used up its share for this quality of service",
     "set slurm.qos or slurm.account"},
    {"", "QOSMin", "it asks for less than its quality of service requires", "set slurm.qos"}};

constexpr Advice kPerJob{
    "", "", "it asks for more than a job of this account or quality of service may have",
    "lower slurm.nodes, gpus_per_node, cpus_per_task, mem or time, or set slurm.qos"};
constexpr Advice kBudget{"", "", "the account has used up its budget",
                         "set slurm.account or slurm.qos, or ask for more"};

// nullptr if the reason may pass by waiting.
const Advice* advice_for(std::string_view reason) {
  // This reason passes when the other job begins.
  if (reason.find("May be reserved for other job") != std::string_view::npos) return nullptr;
  for (const Advice& advice : kAdvice) {
    if (!advice.reason.empty() && reason.starts_with(advice.reason)) return &advice;
  }
  if (!reason.starts_with("Assoc") && !reason.starts_with("QOS")) return nullptr;
  if (has_any(reason, {"PerJob", "PerNode"})) return &kPerJob;
  // Minutes of running jobs come back when the jobs end.
  return has_any(reason, {"Minutes"}) && !has_any(reason, {"RunMinutes"}) ? &kBudget : nullptr;
}

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
  return has_any(complaint, {"SubmitJob", "MaxJobCount", "temporarily unable to accept job"});
}

bool says_held(std::string_view reason) { return has_any(reason, {"JobHeld", "JobHold", "held"}); }

bool says_job_is_gone(std::string_view complaint) {
  return has_any(complaint, {"Invalid job id specified", "Job/step already completing or completed",
                             "Job has already finished"});
}

bool says_out_of_memory(std::string_view complaint) {
  // "oom_kill" since Slurm 23.02
  return has_any(complaint,
                 {": Out Of Memory", "oom-kill event", "oom_kill event",
                  // OverMemoryKill of JobAcctGatherParams
                  "xceeded memory limit", "xceeded job memory limit", "xceeded step memory limit"});
}

bool says_node_failed(std::string_view complaint) {
  return has_any(complaint, {"Node failure on ", "DUE TO NODE FAILURE"});
}

bool says_nodes_are_gone(std::string_view complaint) {
  return has_any(complaint, {"Unable to confirm allocation", "Unable to create step"}) &&
         (says_job_is_gone(complaint) || has_any(complaint, {"Job is pending execution"}));
}

std::string first_line(const std::filesystem::path& log, bool (*says)(std::string_view),
                       uintmax_t begin) {
  std::ifstream file(log);
  file.seekg(static_cast<std::streamoff>(begin));
  for (std::string line; std::getline(file, line);) {
    if (says(line)) return line;
  }
  return "";
}

std::string remedy_for_refusal(std::string_view complaint) {
  for (const Advice& advice : kAdvice) {
    if (!advice.refusal.empty() && has_any(complaint, {advice.refusal})) {
      return std::string(advice.remedy);
    }
  }
  return "";
}

std::string remedy_for_reason(std::string_view reason) {
  const Advice* advice = advice_for(reason);
  return advice ? std::string(advice->remedy) : "";
}

std::optional<std::string> why_it_will_not_start(const TaskState& task) {
  const Advice* advice = task.phase == TaskPhase::kQueued ? advice_for(task.reason) : nullptr;
  if (!advice) return std::nullopt;
  return fmt::format("{}: {}{}{}", task.reason, advice->problem,
                     advice->problem.empty() ? "" : ": ", advice->remedy);
}

}  // namespace fsdp
