#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contract/record/event.h"
#include "contract/record/run_paths.h"

namespace fsdp {

// Follows the events files of one attempt, while its ranks write them or after a runner was killed.
// It starts at the beginning of the files, unless go_to() is called. Each poll opens the files
// anew, because only this makes new data visible on network file systems.
class EventTail {
 public:
  using Warn = std::function<void(const std::string&)>;

  // How far a rank's file was read.
  struct Place {
    int64_t offset_bytes = 0;  // of the first line not yet returned
    int64_t line = 0;          // lines before it
    bool is_in_long_line = false;
    int64_t last_sequence = -1;  // of the last event returned
    int64_t skipped_since = 0;   // lines skipped after that event
    int64_t unknown_since = 0;   // lines after that event, of kinds of a newer version
    int64_t skipped_lines = 0;   // all lost lines

    template <typename Self, typename Visitor>
    static void visit_fields(Self& self, Visitor&& visit) {
      visit("offset_bytes", self.offset_bytes);
      visit("line", self.line);
      visit("is_in_long_line", self.is_in_long_line);
      visit("last_sequence", self.last_sequence);
      visit("skipped_since", self.skipped_since);
      visit("unknown_since", self.unknown_since);
      visit("skipped_lines", self.skipped_lines);
    }
  };

  // `warn` is told about lost lines, in one line with place and remedy.
  EventTail(const RunPaths& paths, int attempt, int ranks, Warn warn);
  // Continues a rank's file from an earlier place().
  void go_to(int rank, const Place& place) { files_.at(static_cast<size_t>(rank)).at = place; }
  const Place& place(int rank) const { return files_.at(static_cast<size_t>(rank)).at; }

  // Returns each rank's events since the last poll, from about 16 MiB of the files. A last line
  // without its line feed waits until it is complete. A missing file has no events. A complete line
  // is skipped if it is no event or is longer than 64 MiB. Throws std::system_error if an existing
  // file cannot be read.
  std::vector<std::vector<Event>> poll();
  // True if the last poll came to the end of every file.
  bool at_end() const { return at_end_; }
  // For each rank, true if its file exists: a rank creates it as soon as it has begun.
  std::vector<bool> begun() const;

  // The number of lost lines in each rank's file: lines that were skipped, and lines that are
  // missing according to the numbers of events.
  std::vector<int64_t> skipped_lines() const;

 private:
  struct File {
    std::filesystem::path path;
    Place at{};
    bool is_there = false;
    int warnings = 0;
  };

  std::vector<Event> poll(File& file);
  void lose(File& file, int64_t lines, const std::string& what);
  // True if the event is new. Counts the lines that are missing before it.
  bool follows(File& file, const Event& event);

  std::vector<File> files_;
  Warn warn_;
  bool at_end_ = false;
};

}  // namespace fsdp
