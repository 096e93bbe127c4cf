#include <string_view>
#include <utility>

#include "runner/slurm/slurm.h"

namespace fsdp {
namespace {

// Reasons in squeue's words that do not pass by waiting, and their remedies. A reason matches if it
// begins with the entry ("ReqNodeNotAvail, UnavailableNodes:n1").
constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
    {"PartitionNodeLimit",
     "it asks for more nodes, or fewer, than the partition gives to a job: set slurm.nodes or "
     "slurm.partition (`sinfo -s`)"},
    {"PartitionTimeLimit",
     "it asks for more time than the partition gives to a job: lower slurm.time or set "
     "slurm.partition (`sinfo -s`)"},
    {"BadConstraints",
     "no node has what it asks for: see slurm.constraint, gpus_per_node, cpus_per_task and mem "
     "(`sinfo -o '%P %D %c %m %G %f'`)"},
    {"PartitionInactive", "the partition takes no jobs: set another slurm.partition (`sinfo -s`)"},
    {"PartitionDown", "the partition is down: set another slurm.partition (`sinfo -s`)"},
    {"PartitionConfig",
     "the partition does not allow what it asks for: set another slurm.partition, slurm.nodes or "
     "slurm.time (`scontrol show partition`)"},
    {"InvalidAccount", "its account is not known: set slurm.account"},
    {"InvalidQOS", "its quality of service is not known: set slurm.qos"},
    {"AccountNotAllowed",
     "its account may not use the partition: set slurm.account or slurm.partition"},
    {"QOSNotAllowed",
     "its quality of service may not be used there: set slurm.qos or slurm.partition"},
    {"ReqNodeNotAvail",
     "the nodes that it needs are down, drained or reserved: see slurm.constraint, slurm.exclude "
     "and slurm.reservation (`sinfo -R`)"},
    {"NodeDown", "a node that it needs is down (`sinfo -R`)"},
    {"Nodes required for job are DOWN",
     "all nodes that could run it are down, drained or reserved (`sinfo -R`)"},
    {"DependencyNeverSatisfied", "a job that it depends on failed: cancel it, and submit again"},
    {"JobHeldAdmin", "an administrator holds it: ask, or cancel it"},
    {"JobHeldUser", "it is held: `scontrol release` lets it go"},
    {"JobHoldMaxRequeue",
     "Slurm started it again too often and holds it: see its output, then `scontrol release`"},
    {"launch failed requeued held",
     "it could not be started on its node, and Slurm holds it: tell the administrators, then "
     "`scontrol release`"},
    {"JobLaunchFailure",
     "it could not be started on its node: see its output, or tell the administrators"},
    {"ReservationDeleted", "its reservation is gone: set slurm.reservation"},
    {"RequiresReservation",
     "the partition is for reservations only: set slurm.reservation or slurm.partition"},
    {"DeadLine", "its deadline has passed: cancel it"},
    {"QOSUsageThreshold",
     "the account has used up its share for this quality of service: set slurm.qos or "
     "slurm.account"},
    {"QOSMin", "it asks for less than its quality of service is for: set slurm.qos"}};

constexpr std::string_view kPerJob =
    "it asks for more than a job of this account or quality of service may have: lower "
    "slurm.nodes, "
    "gpus_per_node, cpus_per_task, mem or time, or set slurm.qos";
constexpr std::string_view kBudget =
    "the account has used up its budget: set slurm.account or slurm.qos, or ask for more";

std::optional<std::string_view> remedy_of(std::string_view reason) {
  // This reason passes when the other job begins.
  if (reason.find("May be reserved for other job") != std::string_view::npos) return std::nullopt;
  for (const auto& [beginning, remedy] : kReasons) {
    if (reason.starts_with(beginning)) return remedy;
  }
  const auto has = [&](std::string_view part) {
    return reason.find(part) != std::string_view::npos;
  };
  if (!reason.starts_with("Assoc") && !reason.starts_with("QOS")) return std::nullopt;
  if (has("PerJob") || has("PerNode")) return kPerJob;
  // Minutes of running jobs come back when the jobs end.
  if (has("Minutes") && !has("RunMinutes")) return kBudget;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_it_will_not_start(const TaskState& task) {
  if (task.phase != TaskPhase::kQueued) return std::nullopt;
  const std::optional<std::string_view> remedy = remedy_of(task.reason);
  if (!remedy) return std::nullopt;
  return task.reason + ": " + std::string(*remedy);
}

}  // namespace fsdp
