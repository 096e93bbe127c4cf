#include "runner/store/event_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace fsdp {
namespace {

// Opening a pipe waits for its writer.
void refuse_pipe(const std::filesystem::path& file) {
  std::error_code hidden;
  const std::filesystem::file_status status = std::filesystem::status(file, hidden);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw std::runtime_error(file.string() + ": is no file; move it away");
}

}  // namespace

EventTail::EventTail(const RunPaths& paths, int attempt, int ranks, Warn warn)
    : warn_(std::move(warn)) {
  for (int rank = 0; rank < ranks; ++rank) files_.push_back({.path = paths.events(attempt, rank)});
}

std::vector<std::vector<Event>> EventTail::poll() {
  at_end_ = true;
  std::vector<std::vector<Event>> events;
  for (File& file : files_) events.push_back(poll(file));
  return events;
}

std::vector<bool> EventTail::begun() const {
  std::vector<bool> begun;
  for (const File& file : files_) begun.push_back(file.is_there);
  return begun;
}

std::vector<int64_t> EventTail::skipped_lines() const {
  std::vector<int64_t> lines;
  for (const File& file : files_) lines.push_back(file.at.skipped_lines);
  return lines;
}

void EventTail::lose(File& file, int64_t lines, const std::string& what) {
  constexpr int kMostWarnings = 10;
  file.at.skipped_lines += lines;
  if (file.warnings == kMostWarnings) return;
  const bool is_last = ++file.warnings == kMostWarnings;
  warn_(
      fmt::format("{}:{}: {}; figures of this attempt may lack a step; run it again with --rerun{}",
                  file.path.string(), file.at.line, what,
                  is_last ? "; further problems of this file are counted, but not shown" : ""));
}

bool EventTail::follows(File& file, const Event& event) {
  const int64_t known = file.at.last_sequence + file.at.skipped_since + file.at.unknown_since;
  if (event.sequence <= file.at.last_sequence) {
    lose(file, 1, fmt::format("skipped a line that repeats the sequence {}", event.sequence));
    return false;
  }
  if (const int64_t lost = event.sequence - known - 1; lost > 0) {
    lose(file, lost, fmt::format("{} lines before this one are missing, by their sequence", lost));
  }
  file.at.last_sequence = event.sequence;
  file.at.skipped_since = file.at.unknown_since = 0;
  return true;
}

std::vector<Event> EventTail::poll(File& file) {
  constexpr int64_t kLongestLineBytes = int64_t{64} << 20;
  constexpr int64_t kBytesPerPoll = int64_t{16} << 20;
  constexpr int64_t kLeastBytes = int64_t{64} << 10;
  refuse_pipe(file.path);
  std::ifstream stream(file.path, std::ios::binary);
  if (!stream.is_open() && errno == ENOENT) return {};
  file.is_there = true;
  stream.seekg(file.at.offset_bytes);
  thread_local const auto line_bytes = std::make_unique_for_overwrite<char[]>(kLongestLineBytes);
  std::vector<Event> events;
  const int64_t begin_bytes = file.at.offset_bytes;
  while (file.at.offset_bytes - begin_bytes <
         std::max(kBytesPerPoll / std::ssize(files_), kLeastBytes)) {
    stream.getline(line_bytes.get(), kLongestLineBytes);
    if (!stream.is_open() || stream.bad()) {
      throw std::system_error(errno, std::generic_category(),
                              file.path.string() + ": cannot be read");
    }
    if (stream.eof() && !file.at.is_in_long_line) return events;  // its line feed may come
    file.at.offset_bytes += stream.gcount();
    if (stream.eof()) return events;
    if (stream.fail()) {
      file.at.is_in_long_line = true;
      stream.clear();
      continue;
    }
    ++file.at.line;
    try {
      if (std::exchange(file.at.is_in_long_line, false)) throw std::runtime_error("too long");
      const std::string_view line(line_bytes.get(), static_cast<size_t>(stream.gcount()) - 1);
      auto event = event_from_json_line(line);
      if (!event) {
        ++file.at.unknown_since;
      } else if (follows(file, *event)) {
        events.push_back(std::move(*event));
      }
    } catch (const std::runtime_error& error) {
      ++file.at.skipped_since;
      lose(file, 1, std::string("skipped a line that is ") + error.what());
    }
  }
  at_end_ = false;
  return events;
}

}  // namespace fsdp
