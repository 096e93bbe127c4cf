#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

// A kernel that an operation would launch on a device.
struct Launch {
  std::string name;
  int64_t bytes = 0;          // that it reads and writes
  bool is_product = false;    // of matrices
  bool is_attention = false;
};

// While it exists, notes the launches of this thread: operators of libtorch that are neither views
// nor allocations and call no other operator, and what `launch` (trainer/kernels/launch.h) shows.
class LaunchCounter {
 public:
  LaunchCounter();
  ~LaunchCounter();
  LaunchCounter(const LaunchCounter&) = delete;
  LaunchCounter& operator=(const LaunchCounter&) = delete;

  static const std::vector<Launch>& launches();

 private:
  at::CallbackHandle callback_;
};

// Of all but products and attention.
int64_t bytes_moved(const std::vector<Launch>& launches);

// One line per name: how often, and its bytes a token.
std::string table_of(const std::vector<Launch>& launches, int64_t tokens);

}  // namespace fsdp
