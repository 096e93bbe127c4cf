#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"

// The times of pieces of work, which `fsdp-run calibrate` measures and plans use.
namespace fsdp {

// A calibration with a time that is not above 0, or above the longest, is not used. Work too short
// to measure gets the shortest time.
inline constexpr double kShortestWork_ms = 1e-6;
inline constexpr double kLongestWork_ms = 3.6e6;

// A piece of work that was measured (see trainer/kernels/work.h).
struct WorkTime {
  std::string work;   // its name, such as "optimizer"
  int64_t rows = 1;   // of a module's batch
  int64_t width = 0;  // tokens of a row; for work outside modules, elements
  double time_ms = 0;

  static void visit_fields(auto& self, auto&& visit) {
    visit("work", self.work);
    visit("rows", self.rows, at_least(1));
    visit("width", self.width, at_least(0));
    visit("time_ms", self.time_ms, above_to(0, kLongestWork_ms));
  }
};

struct Calibration {
  std::string device;    // name of the measured GPU or processor
  std::string libtorch;  // its version
  int64_t ranks = 1;     // number of ranks that computed at once
  int64_t threads = 1;   // CPU threads of each rank
  std::vector<WorkTime> times;

  static void visit_fields(auto& self, auto&& visit) {
    visit("device", self.device);
    visit("libtorch", self.libtorch);
    visit("ranks", self.ranks, at_least(1));
    visit("threads", self.threads, at_least(1));
    visit("times", self.times);
  }
};

// Describes how the measurement `found` differs from `wanted`: "was measured on ..., not on ...".
// Empty if it does not. `wanted` has no times, and 0 threads if their number is unknown.
std::string calibration_misfit(const Calibration& found, const Calibration& wanted);

// Returns 32 hex digits, which are the same for all runs that one calibration serves. These runs
// may differ in the number of layers, the batch, the steps and the data files. `config` is the
// model of `spec`.
std::string calibration_identity(const RunSpec& spec, const ModelConfig& config);

// The folder for the calibrations of an identity, below a folder of results.
std::filesystem::path calibration_folder(const std::filesystem::path& results,
                                         const std::string& identity);
// The file of the calibration for one device and one version of libtorch.
std::filesystem::path calibration_file(const std::filesystem::path& results,
                                       const std::string& identity, const std::string& device,
                                       const std::string& libtorch);

}  // namespace fsdp
