#include "runner/export/export.h"

#include "contract/record/run_paths.h"
#include "runner/export/exported_run.h"
#include "runner/export/table_file.h"

namespace fsdp {
namespace {

Origin origin_of(const Store& store, const ComparisonRow& row) {
  Origin origin;
  if (!row.attempt) return origin;
  const int attempt = static_cast<int>(*row.attempt);
  const Provenance provenance = store.provenance(row.run, attempt);
  origin.runner_version = provenance.runner_version;
  origin.cpu_name = provenance.cpu_name;
  origin.cpu_cores = provenance.cpu_cores;
  origin.memory_total_bytes = provenance.memory_total_bytes;
  origin.environment = provenance.environment;
  origin.experiment_text_digest = provenance.experiment_text_digest;
  const std::vector<RunStarted> ranks = store.rank_facts(row.run, attempt);
  if (ranks.empty()) return origin;
  origin.nccl_version = ranks.front().nccl_version;
  origin.power_limit_watts = ranks.front().power_limit_watts;
  origin.sm_clock_mhz_max = ranks.front().sm_clock_mhz_max;
  return origin;
}

// Below the export's folder, as tensorboard names its runs.
std::filesystem::path folder_of(const ComparisonRow& row) {
  return std::filesystem::path(file_name_of(row.experiment)) /
         (file_name_of(row.point) + '-' + row.hash8);
}

void write_run(const Store& store, const ExportedRun& run, const std::filesystem::path& folder,
               const ExportOptions& options) {
  std::filesystem::create_directories(folder);
  switch (options.format) {
    case ExportFormat::kCsv:
    case ExportFormat::kJsonl:
      return write_tables(store, run, folder, options.format);
    case ExportFormat::kTensorboard:
      return write_tensorboard(store, run, folder);
    case ExportFormat::kWandb:
      return write_wandb(store, run, folder, options);
  }
}

}  // namespace

void export_runs(const Store& store, std::span<const ComparisonRow> rows,
                 const std::filesystem::path& folder, const ExportOptions& options) {
  const bool as_json =
      options.format == ExportFormat::kJsonl || options.format == ExportFormat::kWandb;
  TableFile<ComparisonRow, Origin> runs(folder / "runs",
                                        as_json ? TableFormat::kJsonl : TableFormat::kCsv);
  for (const ComparisonRow& row : rows) {
    const Origin origin = origin_of(store, row);
    runs.add(row, origin);
    if (!row.attempt) continue;
    write_run(store, {.row = row, .origin = origin, .spec_text = store.spec_text(row.run)},
              folder / folder_of(row), options);
  }
  runs.close();
  if (options.format == ExportFormat::kWandb) write_wandb_upload(folder);
}

}  // namespace fsdp
