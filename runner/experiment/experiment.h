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

// A YAML experiment and its expansion into runs. Only reads the file; starts and stores nothing.
namespace fsdp {

enum class ResourceSource { kThisHost, kSlurmRequest, kPlannedGpu };

// The resources for runs. Profiles and rank counts are checked against them.
struct Resources {
  int64_t gpu_count = 0;
  double gpu_memory_gib = 0;  // of the smallest GPU
  int64_t cpu_cores = 1;
  ResourceSource source = ResourceSource::kThisHost;
};

// The measure that compares an experiment's runs. Reports warn if the comparison is unfair.
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
  int64_t position;  // among all runs of the experiment; the same for all values of a doubled key
  std::shared_ptr<const DoublingSeries> doubling{};  // null: no key is doubled
  int64_t doubled_value = 0;
};

struct ExpandOptions {
  std::string profile = "auto";
  std::vector<std::string> set{};   // "path=value", applied last
  int64_t repeats = 0;              // of each run, instead of the sweep's; 0: the sweep's
  std::vector<std::string> only{};  // names of points, series or runs, patterns; empty: all
  bool check_gpus = true;  // refuse more ranks than GPUs; false if nothing will be launched
  // Slurm starts the runs. The resources of a profile or run are those that its section `slurm`
  // requests, whatever this host has.
  bool on_cluster = false;
  // Runs are planned for a GPU that this host may lack. They use cuda. The profile `auto` is the
  // first that requires GPUs, so plans for different GPUs have the same model.
  bool for_any_gpu = false;
  // Replaces names on a hub by their files in the hub's cache, if the cache has them.
  bool from_hub_cache = true;
};

// The runs in the order of the file, and how they were chosen.
struct Expansion {
  std::string profile;                           // empty if the experiment has none
  std::string profile_reason;                    // "cpu: a100x4 needs 4 GPUs, this host has 0"
  std::optional<double> profile_gpu_memory_gib;  // required by the profile
  // In words: keys of base that the profile overrides, and keys of points that --set overrides.
  std::vector<std::string> overridden;
  // The texts of --set that change results, and "repeats=5" for --repeats, sorted. If there are
  // any, the runs are a list of their own (runner/store/list_name.h).
  std::vector<std::string> list_overrides;
  std::vector<Run> runs;      // for a doubled key, the run of its first value
  std::vector<Run> left_out;  // those that `only` leaves out, except any that cannot be resolved
  // The place where the run's key, or the nearest section around it, was given last:
  // file:line:column, --set, or else the file.
  std::function<std::string(const Run&, const std::string& key)> place;
  // Returns the run with these overrides ("path=value") applied last. Throws ConfigError.
  std::function<Run(const Run&, const std::vector<std::string>& set)> variant;
};

// Returns the expansion of an experiment that has this run alone.
Expansion expansion_of(const std::string& point, const RunSpec& spec);

class Experiment {
 public:
  // Throws ConfigError if the file is missing or malformed.
  static Experiment load(const std::filesystem::path& file);
  // Works like load() for a `file` that holds `text`.
  static Experiment from_text(const std::filesystem::path& file, std::string text);

  const std::string& name() const;
  const std::string& title() const;
  Comparison compare() const;
  const std::filesystem::path& file() const;
  const std::string& text() const;  // the file as it was

  // Applies overrides in this order: base, the profile's set, the point, the sweep's combination,
  // --set (its relative paths start at the working directory). Exclusions see the result. Runs that
  // `only` leaves out are not checked. Throws ConfigError with the place of the wrong value. `host`
  // holds the resources of this host.
  Expansion expand(const ExpandOptions& options, const Resources& host) const;

 private:
  explicit Experiment(std::shared_ptr<const ExperimentFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const ExperimentFile> file_;
};

// Returns the digest of a file's bytes. A caller may remember digests between calls.
using FileDigest = std::function<std::string(const std::filesystem::path&)>;

// The digest of the contents of all input files of the run.
std::string data_digest(const RunSpec& spec, const FileDigest& digest);

// Equal for runs that must have equal losses. The number of ranks, the strategy and the split of
// the total batch do not matter.
std::string loss_digest(const RunSpec& spec, const FileDigest& digest);

// The run's identity without the digests of its input files: the keys that differ from the
// defaults, one `key=value` a line. Leaves out keys that do not change the computation.
std::string identity_keys(const RunSpec& spec);

// The run's identity, 32 hex digits: a hash of identity_keys() and its input files' digests.
std::string run_hash(const RunSpec& spec, const FileDigest& digest);

}  // namespace fsdp
