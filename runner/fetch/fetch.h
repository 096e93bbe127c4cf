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

// Brings the files that `inputs` name into the cache, by a Python process (fetch.py). For a model:
// its config.json, its tokenizer, and its weights as safetensors or else as pytorch_model*.bin. For
// a tokenizer: its files. For a path: a file, or all files in a folder. The cache shows a
// repository's files only when all of them are there. Calls `show` several times a second. An
// exception from `show` ends the fetch, and the next fetch continues from there. Throws ConfigError
// (with the input's place and key) and std::runtime_error.
std::vector<FetchedRepository> fetch(const std::vector<HubInput>& inputs,
                                     const std::function<void(const FetchProgress&)>& show);

// Shows a fetch on stderr. A terminal shows a bar for all files below the messages. Other outputs
// get one line per file, and the progress every 15 s.
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
