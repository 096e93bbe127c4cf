#include "tests/end_to_end/terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "runner/table/terminal_text.h"

namespace fsdp {

constexpr int kPatienceMs = 120'000;

Terminal::Terminal(const std::filesystem::path& folder, const std::vector<std::string>& command,
                   unsigned short columns, unsigned short lines, const Variables& environment) {
  winsize size{.ws_row = lines, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  process_ = forkpty(&descriptor_, nullptr, nullptr, &size);
  if (process_ < 0) throw std::system_error(errno, std::generic_category(), "forkpty");
  if (process_ != 0) return;
  setenv("TERM", "xterm-256color", 1);
  for (const auto& [variable, value] : environment) setenv(variable.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (chdir(folder.c_str()) == 0) execvp(arguments[0], arguments.data());
  _exit(127);
}

Terminal::~Terminal() {
  close(descriptor_);
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Terminal::resize(unsigned short columns, unsigned short lines) const {
  const winsize size{.ws_row = lines, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (ioctl(descriptor_, TIOCSWINSZ, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "TIOCSWINSZ");
  }
}

void Terminal::type(const std::string& keys) const {
  if (write(descriptor_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
    throw std::system_error(errno, std::generic_category(), "cannot type");
  }
}

bool Terminal::read_more() {
  pollfd event{descriptor_, POLLIN, 0};
  if (poll(&event, 1, kPatienceMs) == 0) {
    throw std::runtime_error("nothing more comes after: " + unread_);
  }
  std::array<char, 4096> bytes;
  const ssize_t count = read(descriptor_, bytes.data(), bytes.size());
  if (count <= 0) return false;  // EIO: the program has closed its side
  unread_.append(bytes.data(), static_cast<size_t>(count));
  return true;
}

std::string Terminal::read_until(const std::string& text) {
  size_t found;
  while ((found = unread_.find(text)) == std::string::npos) {
    if (!read_more()) throw std::runtime_error("'" + text + "' is not in: " + unread_);
  }
  const std::string read = unread_.substr(0, found + text.size());
  unread_.erase(0, read.size());
  return read;
}

size_t widest_line(std::string shown) {
  std::ranges::replace(shown, '\r', '\n');  // either begins a line
  size_t widest = 0;
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    for (size_t escape; (escape = line.find('\033')) != std::string::npos;) {
      line.erase(escape, line.find_first_of("AJmK", escape) - escape + 1);
    }
    widest = std::max(widest, display_width(line));
  }
  return widest;
}

std::string Terminal::read_to_end() {
  while (read_more()) {
  }
  return std::exchange(unread_, "");
}

}  // namespace fsdp
