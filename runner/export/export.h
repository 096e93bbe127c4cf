#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>

#include "contract/record/step_trace.h"
#include "runner/store/store.h"

// Writes runs as files for other programs.
namespace fsdp {

// To add a format: add its name, a case in runner/export/export.cpp, and a file like
// runner/export/tensorboard.cpp. A tracker is a script like runner/export/upload/mlflow.py, and a
// case in runner/export/trackers.cpp. Test it in tests/export/.
enum class ExportFormat {
  kCsv,
  kJsonl,
  kParquet,
  kTensorboard,
  kWandb,
  kMlflow,
  kTrackio,
  kTrace,
  kMemory
};
constexpr auto enum_names(ExportFormat) {
  return std::array{"csv"sv,    "jsonl"sv,   "parquet"sv, "tensorboard"sv, "wandb"sv,
                    "mlflow"sv, "trackio"sv, "trace"sv,   "memory"sv};
}

struct ExportOptions {
  ExportFormat format = ExportFormat::kCsv;
  std::filesystem::path results;  // the results folder; paths of checkpoints begin there
  WandbSpec wandb{};              // entity and project of runs whose specification has none
};

// Writes the runs of `rows`, lines of the view `comparison`, into an existing empty folder:
//
//   runs.csv, .jsonl (also trackers), .parquet  a row per run: its row and its Origin
//   upload.py                               trackers (wandb, mlflow, trackio): sends the runs
//   <experiment>/<point>-<hash8>/           a folder per run that has an attempt
//     steps, evaluations, checkpoints, device_samples (.csv, .jsonl or .parquet)
//                                           csv, jsonl, parquet: all attempts and ranks
//     events.out.tfevents.*                 tensorboard
//     facts.json, history.jsonl             trackers
//     rank<R>.json.gz                       trace: of the newest attempt
//     rank<R>.pickle                        memory: of the newest attempt
//
// Figures are not rounded. The curves of tensorboard and trackers show the run's newest attempt. If
// it resumed from a checkpoint, the curves begin with the attempts before it. Throws
// std::system_error if something cannot be written. parquet throws ConfigError if its library is
// missing. In parquet, an empty text is absent, and so is a figure that is not finite. The formats
// trace and memory throw ConfigError if no run has a trace. They throw std::runtime_error if a
// trace is not as fsdp-train writes it.
void export_runs(const Store& store, std::span<const ComparisonRow> rows,
                 const std::filesystem::path& folder, const ExportOptions& options);

// Writes what a rank did, as PyTorch's profiler would. Times are since `base_unix_ms`. Throws
// std::system_error if the file cannot be written.
void write_trace(const std::filesystem::path& file, const RunStarted& rank, const RankTrace& trace,
                 int64_t base_unix_ms = 0);

// Writes how memory changed, as PyTorch's torch.cuda.memory._dump_snapshot would. Throws
// std::system_error if the file cannot be written.
void write_memory_snapshot(const std::filesystem::path& file,
                           std::span<const MemoryChange> changes);

// A folder that is written under a temporary name. publish() moves it to its place. Until then the
// old folder is untouched; without publish() the new folder is removed. If the place is a link, the
// link stays and its target is replaced. The new folder gets the mode of the old one.
class PublishedFolder {
 public:
  // Creates the folder to write into. Throws std::system_error.
  explicit PublishedFolder(const std::filesystem::path& place);
  ~PublishedFolder();
  PublishedFolder(const PublishedFolder&) = delete;
  PublishedFolder& operator=(const PublishedFolder&) = delete;

  const std::filesystem::path& folder() const { return partial_; }
  // Moves the folder to its place. The destructor removes the replaced folder.
  void publish();

 private:
  std::filesystem::path place_;
  std::filesystem::path partial_;
};

}  // namespace fsdp
