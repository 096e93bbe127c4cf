#pragma once

#include <optional>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <vector>

namespace fsdp {

// Opens those of the descriptors 0, 1 and 2 that are closed, so that no file that is opened later
// takes their place. Reading and, on standard output, writing fail as on closed ones.
void open_standard_streams();

// All of `text`, whatever signals come. What goes wrong on standard output is remembered.
void write_whole(int descriptor, std::string_view text);

// While one lives, std::cout writes by write_whole().
class StandardOutput : public std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  // Writes what is left, and returns the first error of standard output, if there was one. That
  // nobody reads it any more is none.
  std::optional<std::error_code> finish();

 protected:
  int_type overflow(int_type character) override;
  int sync() override;

 private:
  std::vector<char> buffer_ = std::vector<char>(1 << 16);
  std::streambuf* previous_;
};

}  // namespace fsdp
