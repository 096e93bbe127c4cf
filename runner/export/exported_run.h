#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/export/export.h"
#include "runner/store/trace_file.h"

// The parts that export_runs() and its formats share. TensorBoard and trackers have a file of their
// own.
namespace fsdp {

// A new file. Call close() after the last write. Each member throws std::system_error with the
// file's name if the file cannot be written.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path)
      : path_(std::move(path)), stream_(path_, std::ios::binary) {
    check();
  }

  void write(std::string_view bytes) {
    stream_ << bytes;
    check();
  }
  void close() {
    stream_.close();
    check();
  }

 private:
  void check() const {
    if (stream_) return;
    throw std::system_error(
        errno, std::generic_category(),
        path_.string() + " cannot be written; free its place or name another folder");
  }

  std::filesystem::path path_;
  std::ofstream stream_;
};

// Facts about the origin of an attempt's results that ComparisonRow does not have.
struct Origin {
  Provenance provenance;
  RunStarted rank0;
  std::optional<int64_t> cpu_cores{};  // nullopt: unknown, as for the next one
  std::optional<int64_t> memory_total_bytes{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("cpu_cores", self.cpu_cores);
    visit("memory_total_bytes", self.memory_total_bytes);
    visit("nccl_version", self.rank0.nccl_version);
    visit("power_limit_watts", self.rank0.power_limit_watts);
    visit("sm_clock_mhz_max", self.rank0.sm_clock_mhz_max);
    visit("environment", self.provenance.environment);
  }
};

// The figures that were measured at a moment of a run. A name is a group and a figure:
// "train/loss", "time/step_time_ms", "validation/loss", "memory/allocated_bytes_max",
// "device/gpu:0/power_watts".
struct Moment {
  int64_t step = 0;  // of a device sample: the last step done by then; 0: none yet
  int64_t time_unix_ms = 0;
  std::vector<std::pair<std::string, double>> figures{};
};

// Returns the attempt's steps, evaluations and device samples, ordered by time. If the attempt
// resumed from a checkpoint, earlier attempts come before it: their steps and evaluations up to the
// checkpoint, and all their device samples. A step has the times of its slowest rank. Its memory is
// the largest of any rank. Figures that are not measured or not finite are left out.
std::vector<Moment> moments_of(const Store& store, int64_t run_id, int attempt);

// Write the files of one run into `folder`, which must exist. The run must have an attempt.
void write_tensorboard(const Store& store, const ComparisonRow& run,
                       const std::filesystem::path& folder);
void write_tracked(const Store& store, const ComparisonRow& run, const Origin& origin,
                   const std::filesystem::path& folder, const ExportOptions& options);
// Writes rank<R>.json.gz for each rank. Times are since the first work of any rank.
void write_traces(const RankTraces& traces, const std::filesystem::path& folder);
// Returns upload.py, which sends the runs to an experiment tracker. The export itself sends
// nothing, because its user may have no network or no account. Empty: the format is not of a
// tracker.
std::string_view upload_script(ExportFormat format);

// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

}  // namespace fsdp
