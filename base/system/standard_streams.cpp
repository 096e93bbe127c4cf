// Keeps the descriptors 0, 1 and 2 open, and remembers the first error of standard output.
#include "base/system/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>

namespace fsdp {
namespace {

int output_error = 0;

}  // namespace

void open_standard_streams() {
  // open() takes the lowest free descriptor.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // A write to standard output then fails, as it would have with a closed descriptor.
    const bool is_output = descriptor == STDOUT_FILENO;
    [[maybe_unused]] const int opened = open("/dev/null", is_output ? O_RDONLY : O_WRONLY);
  }
}

void write_whole(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (descriptor == STDOUT_FILENO && output_error == 0) output_error = errno;
      return;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

StandardOutput::StandardOutput() : previous_(std::cout.rdbuf(this)) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

StandardOutput::~StandardOutput() {
  StandardOutput::sync();
  std::cout.rdbuf(previous_);
}

int StandardOutput::sync() {
  write_whole(STDOUT_FILENO, {pbase(), pptr()});
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return output_error == 0 ? 0 : -1;
}

StandardOutput::int_type StandardOutput::overflow(int_type character) {
  if (sync() != 0) return traits_type::eof();
  if (traits_type::eq_int_type(character, traits_type::eof()))
    return traits_type::not_eof(character);
  return sputc(traits_type::to_char_type(character));
}

std::optional<std::error_code> StandardOutput::finish() {
  sync();
  if (output_error == 0 || output_error == EPIPE) return std::nullopt;
  return std::error_code(output_error, std::generic_category());
}

}  // namespace fsdp
