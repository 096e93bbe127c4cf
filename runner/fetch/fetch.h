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

// How a fetch stands, for whoever shows it; written by its threads.
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
  std::vector<std::string> lines;  // that were said and not taken yet
};

// What one repository has given.
struct FetchedRepository {
  HubName name;  // without a path
  std::filesystem::path snapshot;
  int files = 0;
  int64_t bytes = 0;
};

// Brings what `inputs` name into the cache: of a model its config.json, its weights as safetensors
// (or, where it has none, as pytorch_model*.bin) and its tokenizer, of a tokenizer its files, of a
// path the file or all files in the folder. A repository becomes visible only when all of its files
// are there. Throws ConfigError (place empty, key: the input's), std::runtime_error, Interrupted.
// `first_wait_s` is what a failed request waits before it is asked again.
std::vector<FetchedRepository> fetch(const std::vector<HubInput>& inputs, const Endpoint& endpoint,
                                     double first_wait_s, FetchProgress& progress,
                                     std::stop_token stop);

}  // namespace fsdp
