#pragma once

#include <cstdint>
#include <string>

namespace fsdp {

// How far the tokenizing of a file is, in one line of the terminal that stderr is; without one
// nothing is shown. The line goes with the object.
class PrepareBar {
 public:
  explicit PrepareBar(std::string name);
  ~PrepareBar();
  PrepareBar(const PrepareBar&) = delete;
  PrepareBar& operator=(const PrepareBar&) = delete;

  // 0 of 0 bytes: another process does it.
  void show(int64_t read_bytes, int64_t all_bytes);

 private:
  std::string name_;
  bool has_terminal_;
};

// "games.csv [######              ]  30 %".
std::string prepare_bar_text(const std::string& name, int64_t read_bytes, int64_t all_bytes);

}  // namespace fsdp
