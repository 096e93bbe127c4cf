#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/end_to_end/program.h"

namespace fsdp {

// A program on a pseudo terminal. The destructor kills it.
class Terminal {
 public:
  Terminal(const std::filesystem::path& folder, const std::vector<std::string>& command,
           unsigned short columns, unsigned short lines, const Variables& environment = {});
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void resize(unsigned short columns, unsigned short lines) const;
  void type(const std::string& keys) const;
  // Returns the output since the last call, up to the end of `text`. Throws if it does not come.
  std::string read_until(const std::string& text);
  // Returns the rest of the output. Throws if the program does not end.
  std::string read_to_end();

 private:
  // Adds output to unread_. Returns false at the end of the output.
  bool read_more();

  int descriptor_ = -1;
  pid_t process_ = -1;
  std::string unread_;
};

// The width of the widest line shown on a terminal, in columns.
size_t widest_line(std::string shown);

}  // namespace fsdp
