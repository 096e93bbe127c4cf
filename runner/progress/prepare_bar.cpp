#include "runner/progress/prepare_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "contract/record/standard_streams.h"
#include "contract/text/utf8.h"

namespace fsdp {
namespace {

constexpr std::string_view kErasedLine = "\r\033[K";

}  // namespace

PrepareBar::PrepareBar(std::string name)
    : name_(std::move(name)), has_terminal_(isatty(STDERR_FILENO) == 1) {}

PrepareBar::~PrepareBar() {
  if (has_terminal_) write_whole(STDERR_FILENO, kErasedLine);
}

void PrepareBar::show(int64_t read_bytes, int64_t all_bytes) {
  if (!has_terminal_) return;
  write_whole(STDERR_FILENO,
              std::string(kErasedLine) + prepare_bar_text(name_, read_bytes, all_bytes));
}

std::string prepare_bar_text(const std::string& name, int64_t read_bytes, int64_t all_bytes) {
  constexpr int64_t kWidth = 20;
  constexpr size_t kMostOfName = 20;
  const std::string shown = visible_line(shortened(name, kMostOfName));
  if (all_bytes == 0) return "waiting for another process that tokenizes " + shown;
  const int64_t filled = std::clamp<int64_t>(read_bytes * kWidth / all_bytes, 0, kWidth);
  return fmt::format("tokenizing {} [{}{}] {:3} %", shown, std::string(filled, '#'),
                     std::string(kWidth - filled, ' '), read_bytes * 100 / all_bytes);
}

}  // namespace fsdp
