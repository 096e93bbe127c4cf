#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "contract/record/exit_code.h"
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

// Returns the request to Slurm and what it may cost; empty if nothing is requested.
std::string request_line(const Preflight& preflight);

// Returns the scripts of the jobs that would be submitted for the list's runs, a YAML document
// each.
std::string job_scripts(const std::string& list, const std::vector<Run>& runs,
                        const std::filesystem::path& results);

// Prints a paragraph that begins with `before`.
using Print = std::function<void(const std::string& before, const std::string& text)>;

// Prints what Slurm says about jobs that are not submitted yet, a line for each kind of job.
// Submits nothing, and does not wait long for Slurm.
void check_queue(const Preflight& preflight, const Print& print);

void add_require_fit_option(CLI::App& command, bool& require_fit);
// Returns kRunFailed if a row does not fit, else kNotPlanned if that is not known of one. Names
// these rows on stderr. Suggested rows do not count.
ExitCode required_fit(const std::vector<PlannedRow>& rows);

// Returns warnings about what weakens the comparison or will stop a run early, with remedies.
std::vector<std::string> preflight_warnings(const Preflight& preflight);

}  // namespace fsdp
