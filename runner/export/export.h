#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "runner/store/store.h"

// Runs as files for other programs.
namespace fsdp {

enum class ExportFormat { kCsv, kJsonl, kTensorboard, kWandb };
constexpr auto enum_names(ExportFormat) {
  return std::array{"csv"sv, "jsonl"sv, "tensorboard"sv, "wandb"sv};
}

// For what the specification of a run does not say in its section wandb.
struct WandbDefaults {
  std::optional<std::string> entity;
  std::optional<std::string> project;
};

struct ExportOptions {
  ExportFormat format = ExportFormat::kCsv;
  std::filesystem::path results;  // for the paths of checkpoints
  WandbDefaults wandb{};
};

// Writes `rows`, lines of the view comparison, into `folder`, which is there and empty:
//
//   runs.csv (jsonl, wandb: runs.jsonl)     a line per run: its comparison, its provenance
//   <experiment>/<point>-<hash8>/           of each run that has an attempt
//     steps.csv, evaluations.csv, checkpoints.csv, device_samples.csv   csv, of all attempts and
//                                           ranks; jsonl: the same as JSON lines
//     events.out.tfevents.*                 tensorboard
//     wandb.json, history.jsonl             wandb; upload.py beside runs.jsonl sends them
//
// Figures are in full. The curves of tensorboard and wandb are those of the attempt that the
// comparison shows and, where it went on from a checkpoint, of the attempts before it. Throws
// std::system_error when something cannot be written.
void export_runs(const Store& store, std::span<const ComparisonRow> rows,
                 const std::filesystem::path& folder, const ExportOptions& options);

}  // namespace fsdp
