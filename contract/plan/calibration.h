#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"

// The times of pieces of work, which `fsdp-run calibrate` measures and plans use.
namespace fsdp {

// A calibration with other times is not used. Work too short to measure takes the shortest time.
inline constexpr double kShortestWork_ms = 1e-6;
inline constexpr double kLongestWork_ms = 3.6e6;

// A piece of work that was measured (see trainer/backend/work.h).
struct WorkTime {
  std::string work;
  int64_t rows = 1;
  int64_t width = 0;
  double time_ms = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("work", self.work, "What it is.", any_value());
    visit("rows", self.rows, "Of its batch.", at_least(1));
    visit("width", self.width, "Tokens of a row, or elements.", at_least(0));
    visit("time_ms", self.time_ms, "How long it takes.", above_to(0, kLongestWork_ms));
  }
};

struct Calibration {
  std::string device;
  std::string libtorch;
  int64_t ranks = 1;
  int64_t threads = 1;
  std::vector<WorkTime> times;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("device", self.device, "What was measured.", any_value());
    visit("libtorch", self.libtorch, "The version that computed.", any_value());
    visit("ranks", self.ranks, "That computed side by side.", at_least(1));
    visit("threads", self.threads, "Of each.", at_least(1));
    visit("times", self.times, "Of each piece of work.", any_value());
  }
};

// Describes how the measurement `found` differs from `wanted`: "was measured on ..., not on ...".
// Empty if it does not. `wanted` has no times, and 0 threads if their number is unknown.
std::string calibration_misfit(const Calibration& found, const Calibration& wanted);

// Returns 32 hex digits that are the same for all runs whose steps have the same pieces. The number
// of layers, the batch, the steps and the data may differ. `config` is the model of `spec`.
std::string calibration_identity(const RunSpec& spec, const ModelConfig& config);

// The folder for the calibrations of an identity, below a folder of results.
std::filesystem::path calibration_folder(const std::filesystem::path& results,
                                         const std::string& identity);
// The file of the calibration for one device and one version of libtorch.
std::filesystem::path calibration_file(const std::filesystem::path& results,
                                       const std::string& identity, const std::string& device,
                                       const std::string& libtorch);

}  // namespace fsdp
