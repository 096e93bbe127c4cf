#pragma once

#include <optional>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <vector>

namespace fsdp {

// Opens each of the descriptors 0, 1 and 2 that is closed, so no later file takes its place.
// Reading, or writing to standard output, still fails as on a closed descriptor.
void open_standard_streams();

// Writes all of `text`, even if signals interrupt it. Errors on standard output are remembered.
void write_whole(int descriptor, std::string_view text);

// Makes std::cout write with write_whole() as long as the object exists.
class StandardOutput : public std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  // Writes the rest, and returns the first error of standard output, if any. A reader that has
  // closed the pipe is not an error.
  std::optional<std::error_code> finish();

 protected:
  int_type overflow(int_type character) override;
  int sync() override;

 private:
  std::vector<char> buffer_ = std::vector<char>(1 << 16);
  std::streambuf* previous_;
};

}  // namespace fsdp
