#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/host/host.h"
#include "runner/plan/plan_report.h"

// Describes the work and the needs of an experiment's runs before any is started.
namespace fsdp {

struct Preflight {
  const Expansion& expansion;
  Comparison compare;
  const Resources& host;
  bool on_cluster;
  std::filesystem::path results;
  std::vector<PlannedRow> plans{};  // of each first repeat; empty: no trainer can plan here
};

// Returns a line for the first repeat of each run, no wider than `width` (0: any width).
std::vector<std::string> preflight_table(const Preflight& preflight, size_t width);

// Returns the request to Slurm; empty if nothing is requested.
std::string request_line(const Preflight& preflight);

// Returns what weakens the comparison of the runs or will stop one early, each with a remedy.
std::vector<std::string> preflight_warnings(const Preflight& preflight);

// Slurm's answer about jobs that are not submitted yet.
struct QueueCheck {
  std::vector<std::string> refused;  // a line for each kind of job, with a remedy
  std::string not_known;             // why Slurm does not tell everything; empty: it does
};

// Submits nothing, and does not wait long for Slurm.
QueueCheck check_queue(const Expansion& expansion);

}  // namespace fsdp
