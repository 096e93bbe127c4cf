#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/host/host.h"
#include "runner/plan/plan_report.h"

// What an experiment's runs will do and take, before any is started, as far as is known then. Pure,
// but for the room that it asks the file system of the results for.
namespace fsdp {

struct Preflight {
  const Expansion& expansion;
  Comparison compare;
  const Resources& host;
  bool on_cluster;
  std::filesystem::path results;
  std::vector<PlannedRow> plans{};  // of each run that is no repeat; empty: nobody can plan here
};

// A line per run that is no repeat, no wider than `width` (0: any).
std::vector<std::string> preflight_table(const Preflight& preflight, size_t width);

// What the queue is asked for; empty where nothing is.
std::string request_line(const Preflight& preflight);

// What makes the runs less than they look, or will keep one from its end, each with what to do.
std::vector<std::string> preflight_warnings(const Preflight& preflight);

}  // namespace fsdp
