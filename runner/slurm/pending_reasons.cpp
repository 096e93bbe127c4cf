#include <algorithm>
#include <array>
#include <utility>

#include "runner/slurm/slurm.h"

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

// Reasons, as squeue words them, that waiting does not end, and what does; the beginning of a
// reason is enough ("ReqNodeNotAvail, UnavailableNodes:n1").
constexpr std::array kReasons = {
    std::pair{
        "PartitionNodeLimit"sv,
        "it asks for more nodes, or fewer, than the partition gives to a job: set slurm.nodes "
        "or slurm.partition (`sinfo -s`)"sv},
    std::pair{"PartitionTimeLimit"sv,
              "it asks for more time than the partition gives to a job: lower slurm.time or set "
              "slurm.partition (`sinfo -s`)"sv},
    std::pair{
        "BadConstraints"sv,
        "no node has what it asks for: see slurm.constraint, gpus_per_node, cpus_per_task and "
        "mem (`sinfo -o '%P %D %c %m %G %f'`)"sv},
    std::pair{"PartitionInactive"sv,
              "the partition takes no jobs: set another slurm.partition (`sinfo -s`)"sv},
    std::pair{"PartitionDown"sv,
              "the partition is down: set another slurm.partition (`sinfo -s`)"sv},
    std::pair{"PartitionConfig"sv,
              "the partition does not allow what it asks for: set another slurm.partition, "
              "slurm.nodes or slurm.time (`scontrol show partition`)"sv},
    std::pair{"InvalidAccount"sv, "its account is not known: set slurm.account"sv},
    std::pair{"InvalidQOS"sv, "its quality of service is not known: set slurm.qos"sv},
    std::pair{"AccountNotAllowed"sv,
              "its account may not use the partition: set slurm.account or slurm.partition"sv},
    std::pair{"QOSNotAllowed"sv,
              "its quality of service may not be used there: set slurm.qos or slurm.partition"sv},
    std::pair{"ReqNodeNotAvail"sv,
              "the nodes that it needs are down, drained or reserved: see slurm.constraint, "
              "slurm.exclude and slurm.reservation (`sinfo -R`)"sv},
    std::pair{"NodeDown"sv, "a node that it needs is down (`sinfo -R`)"sv},
    std::pair{"Nodes required for job are DOWN"sv,
              "all nodes that could run it are down, drained or reserved (`sinfo -R`)"sv},
    std::pair{"DependencyNeverSatisfied"sv,
              "a job that it depends on failed: cancel it, and submit again"sv},
    std::pair{"JobHeldAdmin"sv, "an administrator holds it: ask, or cancel it"sv},
    std::pair{"JobHeldUser"sv, "it is held: `scontrol release` lets it go"sv},
    std::pair{"JobHoldMaxRequeue"sv,
              "Slurm started it again too often and holds it: see its output, then `scontrol "
              "release`"sv},
    std::pair{"launch failed requeued held"sv,
              "it could not be started on its node, and Slurm holds it: tell the administrators, "
              "then `scontrol release`"sv},
    std::pair{"JobLaunchFailure"sv,
              "it could not be started on its node: see its output, or tell the administrators"sv},
    std::pair{"ReservationDeleted"sv, "its reservation is gone: set slurm.reservation"sv},
    std::pair{"RequiresReservation"sv,
              "the partition is for reservations only: set slurm.reservation or slurm.partition"sv},
    std::pair{"DeadLine"sv, "its deadline has passed: cancel it"sv},
    std::pair{"QOSUsageThreshold"sv,
              "the account has used up its share for this quality of service: set slurm.qos or "
              "slurm.account"sv},
    std::pair{"QOSMin"sv, "it asks for less than its quality of service is for: set slurm.qos"sv}};

constexpr std::string_view kPerJob =
    "it asks for more than a job of this account or quality of service may have: lower "
    "slurm.nodes, "
    "gpus_per_node, cpus_per_task, mem or time, or set slurm.qos";
constexpr std::string_view kBudget =
    "the account has used up its budget: set slurm.account or slurm.qos, or ask for more";

std::optional<std::string_view> remedy_of(std::string_view reason) {
  // This one passes when the other job has begun.
  if (reason.find("May be reserved for other job") != std::string_view::npos) return std::nullopt;
  for (const auto& [beginning, remedy] : kReasons) {
    if (reason.starts_with(beginning)) return remedy;
  }
  const auto has = [&](std::string_view part) {
    return reason.find(part) != std::string_view::npos;
  };
  if (!reason.starts_with("Assoc") && !reason.starts_with("QOS")) return std::nullopt;
  if (has("PerJob") || has("PerNode")) return kPerJob;
  // Minutes of running jobs come back when they end.
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
