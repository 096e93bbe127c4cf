#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "contract/record/run_paths.h"
#include "runner/launch/launcher.h"
#include "runner/store/attempts.h"

// The files that a Slurm job writes into an attempt's folder, for a runner that follows the job
// from elsewhere. Both files appear complete, because they are renamed into place.
namespace fsdp {

// launch.json, written before the ranks are started.
struct LaunchRecord {
  std::string job;  // "12_3", "12"
  std::string node_list;
  std::string host;  // the ranks are started from it
  int64_t started_unix_ms = 0;
  Prediction prediction{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("job", self.job);
    visit("node_list", self.node_list);
    visit("host", self.host);
    visit("started_unix_ms", self.started_unix_ms);
    Prediction::visit_fields(self.prediction, visit);
  }
};

// end.json, written after every rank has ended. A killed job writes none. A runner on this host
// writes one if it could not record the end.
struct EndRecord {
  int64_t ended_unix_ms = 0;
  LaunchResult launch{};
  // True if the run's inputs were compared at its end; changed_input() gave the next member.
  bool inputs_compared = false;
  std::optional<std::string> changed_input{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("ended_unix_ms", self.ended_unix_ms);
    visit("outcome", self.launch.outcome);
    visit("reason", self.launch.reason);
    visit("first_rank", self.launch.first_rank);
    visit("inputs_compared", self.inputs_compared);
    visit("changed_input", self.changed_input);
  }
};

// The attempt's folder must exist. Throws std::system_error if the file cannot be written.
void write_launch_record(const RunPaths& paths, int attempt, const LaunchRecord& start);
void write_end_record(const RunPaths& paths, int attempt, const EndRecord& end);

// Return nullopt if the file is missing or has no valid record. `warn` gets a line about the
// latter.
using WarnOfFile = std::function<void(const std::string&)>;
std::optional<LaunchRecord> read_launch_record(const RunPaths& paths, int attempt,
                                               const WarnOfFile& warn);
std::optional<EndRecord> read_end_record(const RunPaths& paths, int attempt,
                                         const WarnOfFile& warn);

}  // namespace fsdp
