#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "formats/inputs/hub_inputs.h"
#include "runner/progress/live_view.h"

namespace fsdp {

// The state of a fetch.
struct FetchProgress {
  int64_t done_bytes = 0;
  int64_t all_bytes = 0;
  int done_files = 0;
  int all_files = 0;                 // 0: not known yet
  std::vector<std::string> lines{};  // new since the last state
};

// The result for one repository.
struct FetchedRepository {
  HubName name{};  // without a path
  std::filesystem::path snapshot{};
  int files = 0;
  int64_t bytes = 0;
};

// Brings the files that `inputs` name into the cache, by a process of Python (fetch.py). A model
// has its config.json, its tokenizer and its weights as safetensors, or else as
// pytorch_model*.bin. A tokenizer has its files. A path is a file or all files in a folder. A
// repository becomes visible only when all of its files are there. Calls `show` several times a
// second. An exception from `show` ends the fetch, and the next one goes on from there. Throws
// ConfigError (with the input's place and key) and std::runtime_error.
std::vector<FetchedRepository> fetch(const std::vector<HubInput>& inputs,
                                     const std::function<void(const FetchProgress&)>& show);

// Shows a fetch on stderr. A terminal shows a bar for all files below the messages. Other outputs
// get one line per file and one every 15 s.
class FetchView {
 public:
  void show(const FetchProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  TerminalLine line_;
  Clock::time_point said_at_ = Clock::now();
  Clock::time_point measured_at_ = said_at_;
  int64_t measured_bytes_ = 0;
  double bytes_per_s_ = 0;  // smoothed
};

}  // namespace fsdp
