#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/event.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {

// Follows the events files of one attempt, while its ranks write them or after a runner was killed.
// It starts at the beginning of the files; Store::ingest leaves out what it has already. The files
// are opened anew on each poll, which is what makes new data visible on network file systems.
class EventTail {
 public:
  using Warn = std::function<void(const std::string&)>;

  // `warn` is told, in one line with place and remedy, about each line that is not an event.
  EventTail(const RunPaths& paths, int attempt, int ranks, Warn warn);

  // The events of each rank since the last poll, about 16 MiB of the files at a time. A last line
  // without its line feed waits until it is whole; a file that is not there yet has no events; a
  // whole line that is not an event is skipped. Throws std::system_error when a file is there and
  // cannot be read.
  std::vector<std::vector<Event>> poll();
  // Whether the last poll came to the end of every file.
  bool at_end() const { return at_end_; }

  int64_t skipped_lines() const { return skipped_lines_; }

 private:
  struct File {
    std::filesystem::path path;
    int64_t offset_bytes = 0;  // of the first line not yet returned
    int64_t line = 0;          // lines before it
  };

  std::vector<Event> poll(File& file);
  std::string_view read_lines(const File& file);

  std::vector<File> files_;
  Warn warn_;
  std::string buffer_;
  bool at_end_ = false;
  int64_t skipped_lines_ = 0;
};

}  // namespace fsdp
