#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "contract/files/input_file.h"

namespace fsdp {

// A two-dimensional NumPy array of int32 or int64 in C order (NEP 1, .npy versions 1-3).
class TokenArray {
 public:
  // Throws ConfigError (place: the file) if it is not such an array.
  explicit TokenArray(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // Copies row `row` into `out`, which holds columns() elements. Throws ConfigError if the row has
  // gone from the file.
  void read_row(int64_t row, int64_t* out) const;
  // The smallest and largest token of the whole array, {0, -1} when it is empty.
  std::pair<int64_t, int64_t> minimum_and_maximum() const;

 private:
  InputFile file_;
  uint64_t data_offset_ = 0;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int item_bytes_ = 4;
};

}  // namespace fsdp
