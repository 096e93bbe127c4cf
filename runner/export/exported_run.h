#pragma once

#include "runner/export/export.h"

// Functions that export_runs() calls. Each format has a file of its own.
namespace fsdp {

// The origin of an attempt's results, in addition to its comparison.
struct Origin {
  Provenance provenance;
  RunStarted rank0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("cpu_cores", self.provenance.cpu_cores);
    visit("memory_total_bytes", self.provenance.memory_total_bytes);
    visit("nccl_version", self.rank0.nccl_version);
    visit("power_limit_watts", self.rank0.power_limit_watts);
    visit("sm_clock_mhz_max", self.rank0.sm_clock_mhz_max);
    visit("environment", self.provenance.environment);
  }
};

// Each writes the files of one run into `folder`, which exists. The run has an attempt.
void write_tables(const Store& store, const ComparisonRow& run, const std::filesystem::path& folder,
                  bool as_json);
void write_tensorboard(const Store& store, const ComparisonRow& run,
                       const std::filesystem::path& folder);
void write_wandb(const Store& store, const ComparisonRow& run, const Origin& origin,
                 const std::filesystem::path& folder, const ExportOptions& options);
// Writes upload.py into `folder`, beside the folders of the runs.
void write_wandb_upload(const std::filesystem::path& folder);

}  // namespace fsdp
