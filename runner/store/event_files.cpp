#include "runner/store/event_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace fsdp {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string() + ": cannot be read");
}

}  // namespace

EventTail::EventTail(const RunPaths& paths, int attempt, int ranks, Warn warn)
    : warn_(std::move(warn)), skipped_lines_(static_cast<size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank) files_.push_back({.path = paths.events(attempt, rank)});
}

std::vector<std::vector<Event>> EventTail::poll() {
  at_end_ = true;
  std::vector<std::vector<Event>> events;
  for (size_t rank = 0; rank < files_.size(); ++rank) {
    events.push_back(poll(files_[rank], skipped_lines_[rank]));
  }
  return events;
}

std::vector<bool> EventTail::begun() const {
  std::vector<bool> begun;
  for (const File& file : files_) begun.push_back(file.is_there);
  return begun;
}

// Returns complete lines from the file's offset on: at least one, if there is one. They are in
// buffer_. The end of a line that is too long counts as a line; the part before it is left out.
std::string_view EventTail::read_lines(File& file) {
  constexpr int64_t kLongestLineBytes = int64_t{64} << 20;
  constexpr int64_t kBytesPerPoll = int64_t{16} << 20;
  constexpr int64_t kLeastBytes = int64_t{64} << 10;
  std::ifstream stream(file.path, std::ios::binary | std::ios::ate);
  if (!stream.is_open()) {
    if (errno == ENOENT) return {};
    fail(file.path);
  }
  file.is_there = true;
  const int64_t there = stream.tellg() - file.offset_bytes;
  int64_t wanted = std::max(kBytesPerPoll / std::ssize(files_), kLeastBytes);
  for (;; wanted *= 2) {
    const auto size = static_cast<size_t>(std::clamp(there, int64_t{0}, wanted));
    if (buffer_.size() < size) buffer_.resize(size);
    stream.clear();  // clears the end of file of the last reading
    stream.seekg(file.offset_bytes);
    if (stream.read(buffer_.data(), static_cast<std::streamsize>(size)).bad()) fail(file.path);
    const std::string_view text(buffer_.data(), static_cast<size_t>(stream.gcount()));
    const size_t last_line_feed = text.rfind('\n');
    const bool is_end = there <= wanted;
    if (last_line_feed == text.npos && (file.is_in_long_line || wanted >= kLongestLineBytes)) {
      file.is_in_long_line = true;
      file.offset_bytes += std::ssize(text);
      at_end_ = at_end_ && is_end;
      return {};
    }
    if (last_line_feed == text.npos && !is_end) continue;  // a line is longer than this
    at_end_ = at_end_ && is_end;
    return text.substr(0, last_line_feed + 1);  // npos + 1 is 0
  }
}

void EventTail::lose(File& file, int64_t& skipped_lines, int64_t lines, const std::string& what) {
  constexpr int kMostWarnings = 10;
  skipped_lines += lines;
  if (file.warnings == kMostWarnings) return;
  const bool is_last = ++file.warnings == kMostWarnings;
  warn_(
      fmt::format("{}:{}: {}; figures of this attempt may lack a step; run it again with --rerun{}",
                  file.path.string(), file.line, what,
                  is_last ? "; what else is wrong with this file is counted, not told" : ""));
}

bool EventTail::follows(File& file, int64_t& skipped_lines, const Event& event) {
  const int64_t known = file.last_sequence + file.skipped_since + file.unknown_since;
  if (event.sequence <= file.last_sequence) {
    lose(file, skipped_lines, 1,
         fmt::format("skipped a line that repeats the sequence {}", event.sequence));
    return false;
  }
  if (const int64_t lost = event.sequence - known - 1; lost > 0) {
    lose(file, skipped_lines, lost,
         fmt::format("{} lines before this one are missing, by their sequence", lost));
  }
  file.last_sequence = event.sequence;
  file.skipped_since = file.unknown_since = 0;
  return true;
}

std::vector<Event> EventTail::poll(File& file, int64_t& skipped_lines) {
  std::vector<Event> events;
  const std::string_view lines = read_lines(file);
  size_t begin = 0;
  for (size_t end; (end = lines.find('\n', begin)) != lines.npos; begin = end + 1) {
    ++file.line;
    try {
      if (std::exchange(file.is_in_long_line, false)) throw std::runtime_error("too long");
      auto event = event_from_json_line(lines.substr(begin, end - begin));
      if (!event) {
        ++file.unknown_since;
      } else if (follows(file, skipped_lines, *event)) {
        events.push_back(std::move(*event));
      }
    } catch (const std::runtime_error& error) {
      ++file.skipped_since;
      lose(file, skipped_lines, 1, std::string("skipped a line that is ") + error.what());
    }
  }
  file.offset_bytes += static_cast<int64_t>(begin);
  return events;
}

}  // namespace fsdp
