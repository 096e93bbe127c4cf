#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/export/export.h"

// Between export_runs and the formats, a file each.
namespace fsdp {

// Where the results of a run's attempt come from, beside what its comparison says.
struct Origin {
  std::string runner_version;
  std::string cpu_name;
  int64_t cpu_cores = 0;
  int64_t memory_total_bytes = 0;
  std::string nccl_version;
  std::optional<double> power_limit_watts;
  std::optional<double> sm_clock_mhz_max;
  std::string environment;
  std::string experiment_text_digest;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("runner_version", self.runner_version);
    visit("cpu_name", self.cpu_name);
    visit("cpu_cores", self.cpu_cores);
    visit("memory_total_bytes", self.memory_total_bytes);
    visit("nccl_version", self.nccl_version);
    visit("power_limit_watts", self.power_limit_watts);
    visit("sm_clock_mhz_max", self.sm_clock_mhz_max);
    visit("environment", self.environment);
    visit("experiment_text_digest", self.experiment_text_digest);
  }
};

struct ExportedRun {
  const ComparisonRow& row;  // with an attempt
  Origin origin;
  std::string spec_text;
};

// Each writes the files of one run into `folder`, which is there.
void write_tables(const Store& store, const ExportedRun& run, const std::filesystem::path& folder,
                  ExportFormat format);
void write_tensorboard(const Store& store, const ExportedRun& run,
                       const std::filesystem::path& folder);
void write_wandb(const Store& store, const ExportedRun& run, const std::filesystem::path& folder,
                 const ExportOptions& options);
// Beside the folders of the runs.
void write_wandb_upload(const std::filesystem::path& folder);

}  // namespace fsdp
