#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec.h"

// A YAML experiment and its expansion into runs. Pure: reads the file, starts and stores nothing.
namespace fsdp {

// What there is for runs; profiles and rank counts are checked against it.
struct Resources {
  int64_t gpu_count = 0;
  double gpu_memory_gib = 0;  // of the smallest GPU
  int64_t cpu_cores = 1;
  bool are_requested = false;  // of Slurm; false: this host has them
};

// What an experiment's runs are compared by: reports warn of what makes that comparison unfair.
enum class Comparison { kLoss, kThroughput };

constexpr auto enum_names(Comparison) { return std::array{"loss"sv, "throughput"sv}; }

class DoublingSeries;
struct ExperimentFile;

// One point of the experiment with one combination of the sweep's values, or one repeat of it.
struct Run {
  std::string point;   // unique within the experiment: the series, and " #2" for a second repeat
  std::string series;  // the point's name with the sweep's values: "FSDP size_per_rank=2"
  int64_t repeat = 0;
  RunSpec spec;      // resolved; device is cpu or cuda
  int64_t position;  // among all runs of the experiment; of a doubled key, the same for all values
  std::shared_ptr<const DoublingSeries> doubling{};  // that the run is of; null: none
  int64_t doubled_value = 0;
};

struct ExpandOptions {
  std::string profile = "auto";
  std::vector<std::string> set{};   // "path=value", applied last
  std::vector<std::string> only{};  // names of points, series or runs, patterns; empty: all
  bool check_gpus = true;  // refuse more ranks than GPUs; false where nothing will be launched
  // Runs are started by Slurm: what there is for a profile, and for a run, is what its own section
  // `slurm` asks for, whatever this host has.
  bool on_cluster = false;
  // Runs are planned for a GPU that this host may lack: they are on cuda, and `auto` is the first
  // profile that requires GPUs. Every GPU gets the same model.
  bool for_any_gpu = false;
  // Names on a hub become the files that they have in its cache, where it has them.
  bool from_hub_cache = true;
};

// The runs in the order of the file, and how they came about.
struct Expansion {
  std::string profile;                           // empty when the experiment has none
  std::string profile_reason;                    // "cpu: a100x4 needs 4 GPUs, this host has 0"
  std::optional<double> profile_gpu_memory_gib;  // that the profile requires
  std::vector<std::string> overridden;  // keys of base that the profile overrides, in words
  std::vector<Run> runs;                // where a key is doubled, the run of its first value
  std::vector<Run> left_out;  // those that `only` leaves out, but for any that cannot be resolved
  // Where the run's key, or the nearest section around it, was given last: file:line:column, --set,
  // else the file.
  std::function<std::string(const Run&, const std::string& key)> place;
  // The run as it is with these overrides ("path=value") applied last. Throws ConfigError.
  std::function<Run(const Run&, const std::vector<std::string>& set)> variant;
};

class Experiment {
 public:
  // Throws ConfigError on anything malformed at the top level of the file.
  static Experiment load(const std::filesystem::path& file);
  // As load() would if `file` held `text`.
  static Experiment from_text(const std::filesystem::path& file, std::string text);

  const std::string& name() const;
  const std::string& title() const;
  Comparison compare() const;
  const std::filesystem::path& file() const;
  const std::string& text() const;  // the file as it was

  // Overrides in this order: base, the profile's set, the point, the profile's overrides of that
  // point, the sweep's combination, --set (whose relative paths start at the working directory).
  // Combinations are left out by what they are then. Runs that `only` leaves out are not checked.
  // Throws ConfigError with the place of the value at fault. `host` is what this host has.
  Expansion expand(const ExpandOptions& options, const Resources& host) const;

 private:
  explicit Experiment(std::shared_ptr<const ExperimentFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const ExperimentFile> file_;
};

// Digest of a file's bytes; a caller may remember digests between calls.
using FileDigest = std::function<std::string(const std::filesystem::path&)>;

// Of the contents of all the run's input files.
std::string data_digest(const RunSpec& spec, const FileDigest& digest);

// Equal for runs whose losses must be equal: whatever the number of ranks, the strategy and the
// split of the total batch.
std::string loss_digest(const RunSpec& spec, const FileDigest& digest);

// What a run's identity is made of beside the digests of its input files: the keys that differ from
// the defaults, one `key=value` a line, without those that do not change what is computed.
std::string identity_keys(const RunSpec& spec);

// The run's identity, 32 hex digits: identity_keys and its input files' digests.
std::string run_hash(const RunSpec& spec, const FileDigest& digest);

}  // namespace fsdp
