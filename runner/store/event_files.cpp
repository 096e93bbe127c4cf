#include "runner/store/event_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <system_error>

namespace fsdp {
namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string() + ": cannot be read");
}

// Everything from `offset_bytes` on; nothing when the file is not there yet.
std::string read_from(const std::filesystem::path& path, int64_t offset_bytes) {
  constexpr size_t kChunkBytes = size_t{1} << 18;
  const OpenFile file(path);
  if (file.descriptor() < 0) {
    if (errno == ENOENT) return {};
    fail(path);
  }
  std::string text;
  size_t size = 0;
  while (true) {
    text.resize(size + kChunkBytes);
    const ssize_t count = pread(file.descriptor(), text.data() + size, kChunkBytes,
                                offset_bytes + static_cast<int64_t>(size));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  return text;
}

}  // namespace

EventTail::EventTail(const RunPaths& paths, int attempt, int ranks, Warn warn)
    : warn_(std::move(warn)) {
  for (int rank = 0; rank < ranks; ++rank) files_.push_back({.path = paths.events(attempt, rank)});
}

std::vector<std::vector<Event>> EventTail::poll() {
  std::vector<std::vector<Event>> events;
  for (File& file : files_) events.push_back(poll(file));
  return events;
}

std::vector<Event> EventTail::poll(File& file) {
  std::vector<Event> events;
  const std::string text = read_from(file.path, file.offset_bytes);
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++file.line;
    const std::string_view line(text.data() + begin, end - begin);
    try {
      if (auto event = event_from_json_line(line)) events.push_back(std::move(*event));
    } catch (const std::runtime_error& error) {
      ++skipped_lines_;
      warn_(file.path.string() + ":" + std::to_string(file.line) + ": skipped a line that is " +
            error.what() + "; figures of this attempt may lack a step; run it again with --rerun");
    }
  }
  file.offset_bytes += static_cast<int64_t>(begin);
  return events;
}

}  // namespace fsdp
