#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <vector>

// The operators and kernels that run on this thread while the object lives: libtorch's, and those
// that trainer/kernels/launch.h shows. Only one such object may live at a time.
class ObservedCalls {
 public:
  struct Call {
    std::string name;
    int64_t read_bytes = 0;  // an expanded tensor's bytes count once
    int64_t written_bytes = 0;
    bool is_view = false;
    bool calls_others = false;
  };

  ObservedCalls();
  ~ObservedCalls();
  ObservedCalls(const ObservedCalls&) = delete;
  ObservedCalls& operator=(const ObservedCalls&) = delete;

  // Returns the launches of a device, in order. Leaves out views, allocations and calls that only
  // call others.
  std::vector<Call> launches() const;
  std::vector<std::string> names_of_launches() const;
  // Returns the bytes of each allocation, in order.
  std::vector<int64_t> allocations() const;
  // Returns the first call with this name.
  Call call(const std::string& name) const;

  // One line per name: the number of calls, and their bytes for each of `tokens`.
  static std::string table_of(const std::vector<Call>& calls, int64_t tokens);
  // The bytes that all calls move, except matrix products and attention.
  static int64_t bytes_moved(const std::vector<Call>& calls);
  static int64_t count_products(const std::vector<Call>& calls);

 private:
  at::CallbackHandle handle_;
};
