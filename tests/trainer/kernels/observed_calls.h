#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <vector>

// The operators and kernels that run on this thread while the object lives, as observers see them.
// One at a time.
class ObservedCalls {
 public:
  struct Call {
    std::string name;
    int64_t read_bytes = 0;
    int64_t written_bytes = 0;
  };

  ObservedCalls();
  ~ObservedCalls();
  ObservedCalls(const ObservedCalls&) = delete;
  ObservedCalls& operator=(const ObservedCalls&) = delete;

  // Names in order, without allocations and views.
  std::vector<std::string> launches() const;
  // Bytes of each allocation in order.
  std::vector<int64_t> allocations() const;
  // The first of that name.
  Call call(const std::string& name) const;

 private:
  at::CallbackHandle handle_;
};
