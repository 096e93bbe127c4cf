#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/record/event.h"
#include "contract/record/run_paths.h"

namespace fsdp {

// Follows the events files of one attempt, while its ranks write them or after a runner was killed.
// It starts at the beginning of the files; Store::ingest leaves out what it has already. The files
// are opened anew on each poll, which is what makes new data visible on network file systems.
class EventTail {
 public:
  using Warn = std::function<void(const std::string&)>;

  // `warn` is told, in one line with place and remedy, about lines that are lost.
  EventTail(const RunPaths& paths, int attempt, int ranks, Warn warn);

  // The events of each rank since the last poll, about 16 MiB of the files at a time. A last line
  // without its line feed waits until it is whole; a file that is not there yet has no events; a
  // whole line that is not an event, or longer than 64 MiB, is skipped. Throws std::system_error
  // when a file is there and cannot be read.
  std::vector<std::vector<Event>> poll();
  // Whether the last poll came to the end of every file.
  bool at_end() const { return at_end_; }
  // Of each rank, whether its file was there: a rank makes it as soon as it has begun.
  std::vector<bool> begun() const;

  // Of each rank's file so far: lines that were skipped, and those that are not there though the
  // numbers of events say that they were written.
  const std::vector<int64_t>& skipped_lines() const { return skipped_lines_; }

 private:
  struct File {
    std::filesystem::path path;
    bool is_there = false;
    int64_t offset_bytes = 0;  // of the first line not yet returned
    int64_t line = 0;          // lines before it
    bool is_in_long_line = false;
    int64_t last_sequence = -1;  // of the last event returned
    int64_t skipped_since = 0;   // lines after it
    int64_t unknown_since = 0;   // lines after it, of kinds of a newer version
    int warnings = 0;
  };

  std::vector<Event> poll(File& file, int64_t& skipped_lines);
  std::string_view read_lines(File& file);
  void lose(File& file, int64_t& skipped_lines, int64_t lines, const std::string& what);
  // Whether the event is new.
  bool follows(File& file, int64_t& skipped_lines, const Event& event);

  std::vector<File> files_;
  Warn warn_;
  std::string buffer_;
  bool at_end_ = false;
  std::vector<int64_t> skipped_lines_;  // by rank
};

}  // namespace fsdp
