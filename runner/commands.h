#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "runner/experiment/experiment.h"
#include "runner/report/report.h"
#include "trainer/contract/exit_code.h"

// What `fsdp-run` does, one function per subcommand. They print to stdout (progress and remarks to
// stderr) and throw ConfigError or std::runtime_error.
namespace fsdp {

struct RunOptions {
  std::filesystem::path file;
  ExpandOptions expand;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
  std::optional<std::string> gpus;
  int max_parallel = 1;
  std::optional<std::chrono::seconds> time_limit;
  bool rerun = false;
  bool per_rank = false;
};

struct ReportOptions {
  std::filesystem::path file{};  // empty: every experiment in the results
  std::filesystem::path results = "results";
  Format format = Format::kTable;
  bool per_rank = false;
};

// Runs what has no result yet, prints the table.
ExitCode run_command(const RunOptions& options);
// Prints every run's specification; starts, creates and writes nothing.
ExitCode dry_run_command(const RunOptions& options);
// Checks file and inputs.
ExitCode check_command(const RunOptions& options);
ExitCode schema_command();
ExitCode report_command(const ReportOptions& options);

}  // namespace fsdp
