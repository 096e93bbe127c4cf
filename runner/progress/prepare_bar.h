#pragma once

#include <cstdint>
#include <string>

namespace fsdp {

// Shows the progress of tokenizing a file, in one line of stderr's terminal. Shows nothing if
// stderr is no terminal. The destructor erases the line.
class PrepareBar {
 public:
  explicit PrepareBar(std::string name);
  ~PrepareBar();
  PrepareBar(const PrepareBar&) = delete;
  PrepareBar& operator=(const PrepareBar&) = delete;

  // 0 of 0 bytes: another process tokenizes the file.
  void show(int64_t read_bytes, int64_t all_bytes);

 private:
  std::string name_;
  bool has_terminal_;
};

// "games.csv [######              ]  30 %".
std::string prepare_bar_text(const std::string& name, int64_t read_bytes, int64_t all_bytes);

}  // namespace fsdp
