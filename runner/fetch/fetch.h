#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "contract/inputs/hub_inputs.h"
#include "runner/fetch/http.h"

namespace fsdp {

// The state of a fetch. The fetch's threads write it, and a view reads it.
struct FetchProgress {
  std::atomic<int64_t> done_bytes = 0;
  std::atomic<int64_t> all_bytes = 0;  // 0: not known yet
  std::atomic<int> done_files = 0;
  std::atomic<int> all_files = 0;

  void say(std::string line) {
    const std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
  }
  std::vector<std::string> take_lines() {
    const std::lock_guard lock(mutex);
    return std::exchange(lines, {});
  }

 private:
  std::mutex mutex;
  std::vector<std::string> lines;  // not taken yet
};

// The result for one repository.
struct FetchedRepository {
  HubName name;  // without a path
  std::filesystem::path snapshot;
  int files = 0;
  int64_t bytes = 0;
};

// Brings the files that `inputs` name into the cache. A model has its config.json, its tokenizer
// and its weights as safetensors, or else as pytorch_model*.bin. A tokenizer has its files. A path
// is a file or all files in a folder. A repository becomes visible only when all of its files are
// there. Throws ConfigError (with the input's place and key), std::runtime_error, Interrupted. A
// failed request waits `first_wait_s` before the first retry, and longer before later ones.
std::vector<FetchedRepository> fetch(const std::vector<HubInput>& inputs, const Endpoint& endpoint,
                                     double first_wait_s, FetchProgress& progress,
                                     std::stop_token stop);

}  // namespace fsdp
