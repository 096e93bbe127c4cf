#include "runner/commands/safe_streams.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/text/utf8.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

// Returns the length of the last character if it may be incomplete, else 0.
size_t unfinished_at_end(std::string_view text) {
  constexpr size_t kLongestBeginning = 3;
  for (size_t length = 1; length <= std::min(kLongestBeginning, text.size()); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;  // the middle of one
    const size_t whole = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return length < whole ? length : 0;
  }
  return 0;
}

}  // namespace

bool SafeStreams::Buffer::show(size_t kept) {
  const std::string pending = std::move(*this).str();  // which leaves it empty
  std::string_view rest = std::string_view(pending).substr(0, pending.size() - kept);
  sputn(rest.end(), static_cast<std::streamsize>(kept));
  std::string text;
  for (;;) {
    const size_t escape = rest.find('\033');
    text += visible_lines(rest.substr(0, escape));
    if (escape == std::string_view::npos) break;
    rest.remove_prefix(escape);
    const std::string_view colour = own_escape_sequence(rest);
    text += colour.empty() ? visible_line(rest.substr(0, 1)) : colour;
    rest.remove_prefix(std::max<size_t>(colour.size(), 1));
  }
  return write_as_it_is(text);
}

bool SafeStreams::Buffer::write_as_it_is(std::string_view bytes) {
  return shown_->sputn(bytes.data(), std::ssize(bytes)) == std::ssize(bytes);
}

bool SafeStreams::Buffer::finish() {
  const bool is_shown = show(0);
  return shown_->pubsync() == 0 && is_shown;
}

int SafeStreams::Buffer::sync() {
  const bool is_shown = show(unfinished_at_end(view()));
  return shown_->pubsync() == 0 && is_shown ? 0 : -1;
}

SafeStreams::SafeStreams() : output_(std::cout.rdbuf()), errors_(std::cerr.rdbuf()) {
  std::cout.rdbuf(&output_);
  std::cerr.rdbuf(&errors_);
}

SafeStreams::~SafeStreams() {
  const bool is_written = output_.finish();
  errors_.finish();
  std::cerr.rdbuf(errors_.shown());
  std::cout.rdbuf(output_.shown());
  if (!is_written) std::cout.setstate(std::ios::badbit);
}

void SafeStreams::write_program_output(std::string_view bytes) {
  auto* buffer = dynamic_cast<Buffer*>(std::cout.rdbuf());
  if (buffer == nullptr || isatty(STDOUT_FILENO) == 1) {
    std::cout << bytes;
  } else if (!buffer->write_as_it_is(bytes)) {
    std::cout.setstate(std::ios::badbit);
  }
  std::cout.flush();
}

}  // namespace fsdp
