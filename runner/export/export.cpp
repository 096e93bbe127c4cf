#include "runner/export/export.h"

#include "contract/record/run_paths.h"
#include "runner/export/exported_run.h"
#include "runner/export/table_file.h"

namespace fsdp {
namespace {

Origin origin_of(const Store& store, const ComparisonRow& run) {
  Origin origin;
  origin.provenance.environment.clear();  // without an attempt it is not known
  if (!run.attempt) return origin;
  const int attempt = static_cast<int>(*run.attempt);
  origin.provenance = store.provenance(run.run, attempt);
  const std::vector<RunStarted> ranks = store.rank_facts(run.run, attempt);
  if (!ranks.empty()) origin.rank0 = ranks.front();
  return origin;
}

// Returns the path below the export's folder. TensorBoard shows it as the run's name.
std::filesystem::path folder_of(const ComparisonRow& row) {
  return std::filesystem::path(file_name_of(row.experiment)) /
         (file_name_of(row.point) + '-' + row.hash8);
}

void write_run(const Store& store, const ComparisonRow& run, const Origin& origin,
               const std::filesystem::path& folder, const ExportOptions& options) {
  std::filesystem::create_directories(folder);
  switch (options.format) {
    case ExportFormat::kCsv:
    case ExportFormat::kJsonl:
      return write_tables(store, run, folder, options.format == ExportFormat::kJsonl);
    case ExportFormat::kTensorboard:
      return write_tensorboard(store, run, folder);
    case ExportFormat::kWandb:
      return write_wandb(store, run, origin, folder, options);
  }
}

}  // namespace

void export_runs(const Store& store, std::span<const ComparisonRow> rows,
                 const std::filesystem::path& folder, const ExportOptions& options) {
  const bool as_json =
      options.format == ExportFormat::kJsonl || options.format == ExportFormat::kWandb;
  TableFile<ComparisonRow, Origin> runs(folder / "runs", as_json);
  for (const ComparisonRow& row : rows) {
    const Origin origin = origin_of(store, row);
    runs.add(row, origin);
    if (row.attempt) write_run(store, row, origin, folder / folder_of(row), options);
  }
  runs.close();
  if (options.format == ExportFormat::kWandb) write_wandb_upload(folder);
}

}  // namespace fsdp
