#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "trainer/checkpoint/basis.h"

namespace fsdp {

struct GradientScalerState {
  double scale = 65536;
  int64_t steps_since_growth = 0;  // since the scale last grew or was halved

  bool operator==(const GradientScalerState&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("scale", self.scale);
    visit("steps_since_growth", self.steps_since_growth);
  }
};

struct CheckpointFile {
  std::string name;
  int64_t size_bytes = 0;
  std::optional<std::string> xxh3_128;  // its checksum; null in checkpoints of older versions

  bool operator==(const CheckpointFile&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("name", self.name);
    visit("size_bytes", self.size_bytes);
    visit("xxh3_128", self.xxh3_128);
  }
};

// The content of a checkpoint's trainer.json: everything but tensors. It is written last, so a
// folder that has it is complete.
struct TrainerState {
  static constexpr int64_t kFormat = 1;

  int64_t format = kFormat;
  int64_t step = 0;        // steps done, skipped ones too
  int64_t sequences = 0;   // read by all ranks so far: the position in the data
  int64_t world_size = 1;  // the number of ranks that wrote it
  StateDict state_dict = StateDict::kFull;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int64_t optimizer_steps = 0;            // of these, those that changed the parameters
  std::optional<double> validation_loss;  // of these parameters; null if they were not evaluated
  std::optional<double> best_validation_loss;  // so far
  std::optional<GradientScalerState> gradient_scaler;
  std::optional<Basis> basis;         // absent in checkpoints of older versions
  std::vector<CheckpointFile> files;  // all except trainer.json, which ends with its own checksum

  bool operator==(const TrainerState&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("format", self.format);
    visit("step", self.step);
    visit("sequences", self.sequences);
    visit("world_size", self.world_size);
    visit("state_dict", self.state_dict);
    visit("optimizer", self.optimizer);
    visit("optimizer_steps", self.optimizer_steps);
    visit("validation_loss", self.validation_loss);
    visit("best_validation_loss", self.best_validation_loss);
    visit("gradient_scaler", self.gradient_scaler);
    visit("basis", self.basis);
    visit("files", self.files);
  }
};

// Returns the state as JSON, which ends with a checksum of the text before it.
std::string to_json(const TrainerState& state);

// Reads the trainer.json of a checkpoint, without the files of the merged model, which may be gone.
// Throws ConfigError (place: the file) if it is damaged, or if a file that it lists is missing or
// has another size.
TrainerState read_trainer_state(const std::filesystem::path& checkpoint);

// Reads this rank's share of a checkpoint's files, which `ranks` ranks share evenly. Throws
// ConfigError (place: the file) if a file's bytes changed since they were written.
void check_contents(const std::filesystem::path& checkpoint, const TrainerState& state, int rank,
                    int ranks);

}  // namespace fsdp
