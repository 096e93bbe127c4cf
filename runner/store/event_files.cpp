#include "runner/store/event_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace fsdp {
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

void EventTail::lose(File& file, int64_t& skipped_lines, int64_t lines, const std::string& what) {
  constexpr int kMostWarnings = 10;
  skipped_lines += lines;
  if (file.warnings == kMostWarnings) return;
  const bool is_last = ++file.warnings == kMostWarnings;
  warn_(
      fmt::format("{}:{}: {}; figures of this attempt may lack a step; run it again with --rerun{}",
                  file.path.string(), file.line, what,
                  is_last ? "; further problems of this file are counted, but not shown" : ""));
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
  constexpr int64_t kLongestLineBytes = int64_t{64} << 20;
  constexpr int64_t kBytesPerPoll = int64_t{16} << 20;
  constexpr int64_t kLeastBytes = int64_t{64} << 10;
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream.is_open() && errno == ENOENT) return {};
  file.is_there = true;
  stream.seekg(file.offset_bytes);
  thread_local const auto line_bytes = std::make_unique_for_overwrite<char[]>(kLongestLineBytes);
  std::vector<Event> events;
  const int64_t begin_bytes = file.offset_bytes;
  while (file.offset_bytes - begin_bytes <
         std::max(kBytesPerPoll / std::ssize(files_), kLeastBytes)) {
    stream.getline(line_bytes.get(), kLongestLineBytes);
    if (!stream.is_open() || stream.bad()) {
      throw std::system_error(errno, std::generic_category(),
                              file.path.string() + ": cannot be read");
    }
    if (stream.eof() && !file.is_in_long_line) return events;  // its line feed may come
    file.offset_bytes += stream.gcount();
    if (stream.eof()) return events;
    if (stream.fail()) {
      file.is_in_long_line = true;
      stream.clear();
      continue;
    }
    ++file.line;
    try {
      if (std::exchange(file.is_in_long_line, false)) throw std::runtime_error("too long");
      const std::string_view line(line_bytes.get(), static_cast<size_t>(stream.gcount()) - 1);
      auto event = event_from_json_line(line);
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
  at_end_ = false;
  return events;
}

}  // namespace fsdp
