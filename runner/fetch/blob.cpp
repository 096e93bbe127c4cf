#include "runner/fetch/blob.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "contract/text/utf8.h"
#include "runner/fetch/lock_file.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr int kMostTries = 6;  // without a byte of progress
constexpr double kLongestWaitFactor = 16;

path incomplete(const RemoteFile& file) { return file.blob.string() + ".incomplete"; }

[[noreturn]] void refuse_blob(const RemoteFile& file, const std::string& problem) {
  throw std::runtime_error(file.name + ": " + problem);
}

class Descriptor {
 public:
  Descriptor(const path& place, int flags) : place_(place) {
    descriptor_ = open(place.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0) refuse_place(place, errno);
  }
  ~Descriptor() { close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return descriptor_; }

  int64_t size_bytes() const {
    struct stat found {};
    if (fstat(descriptor_, &found) != 0) refuse_place(place_, errno);
    if (!S_ISREG(found.st_mode)) refuse_place(place_, EINVAL);
    return found.st_size;
  }

  void write(std::string_view bytes, int64_t offset) const {
    while (!bytes.empty()) {
      const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) refuse_place(place_, count < 0 ? errno : EIO);
      bytes.remove_prefix(static_cast<size_t>(count));
      offset += count;
    }
  }

  std::string_view read(std::vector<char>& block, int64_t offset) const {
    while (true) {
      const ssize_t count = pread(descriptor_, block.data(), block.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse_place(place_, errno);
      return {block.data(), static_cast<size_t>(count)};
    }
  }

 private:
  path place_;
  int descriptor_;
};

// A blob that is being fetched: <blob>.incomplete, and the hash of its bytes. A wrong file is
// replaced by a new one and never rewritten, because another process may have it open.
class PartialBlob {
 public:
  PartialBlob(const RemoteFile& file, const HttpClient& http, std::atomic<int64_t>& done_bytes)
      : file_(file), done_bytes_(done_bytes), hasher_(file.hash, file.size_bytes) {
    take_up(http);
  }

  int64_t bytes() const { return bytes_; }
  // The bytes that were there before this fetch.
  int64_t taken_up_bytes() const { return taken_up_bytes_; }

  void add(std::string_view more) {
    descriptor_->write(more, bytes_);
    count(more);
  }

  void begin_anew() {
    std::error_code gone;
    std::filesystem::remove(incomplete(file_), gone);
    done_bytes_ -= bytes_;
    bytes_ = taken_up_bytes_ = 0;
    hasher_ = ContentHasher(file_.hash, file_.size_bytes);
    descriptor_ =
        std::make_unique<Descriptor>(incomplete(file_), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
  }

  std::string hash() { return hasher_.text(); }

  void rename_to_blob() const {
    if (descriptor_->size_bytes() != file_.size_bytes) refuse_place(incomplete(file_), EIO);
    if (fsync(descriptor_->number()) != 0) refuse_place(incomplete(file_), errno);
    if (rename(incomplete(file_).c_str(), file_.blob.c_str()) != 0) {
      refuse_place(file_.blob, errno);
    }
  }

 private:
  void count(std::string_view more) {
    hasher_.add(more);
    bytes_ += static_cast<int64_t>(more.size());
    done_bytes_ += static_cast<int64_t>(more.size());
  }

  void take_up(const HttpClient& http) {
    constexpr size_t kBlockBytes = 1 << 20;
    descriptor_ = std::make_unique<Descriptor>(incomplete(file_), O_RDWR | O_CREAT | O_NOFOLLOW);
    if (descriptor_->size_bytes() > file_.size_bytes) begin_anew();
    std::vector<char> block(kBlockBytes);
    for (std::string_view read = descriptor_->read(block, 0); !read.empty();
         read = descriptor_->read(block, bytes_)) {
      count(read);
      http.wait(0);
    }
    taken_up_bytes_ = bytes_;
  }

  const RemoteFile& file_;
  std::atomic<int64_t>& done_bytes_;
  ContentHasher hasher_;
  std::unique_ptr<Descriptor> descriptor_;
  int64_t bytes_ = 0;
  int64_t taken_up_bytes_ = 0;
};

// The first byte and the total size of "bytes 5-9/10". nullopt if the text has another form.
std::optional<std::pair<int64_t, int64_t>> content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || dash == text.npos || slash == text.npos) return std::nullopt;
  std::pair<int64_t, int64_t> range{-1, -1};
  std::from_chars(text.data() + kUnit.size(), text.data() + dash, range.first);
  std::from_chars(text.data() + slash + 1, text.data() + text.size(), range.second);
  return range;
}

// Refuses an answer that cannot be the file's rest. Starts over if it is the whole file.
void begin_answer(const RemoteFile& file, const HttpResponse& response, PartialBlob& partial) {
  if (response.status == 206) {
    const auto range = content_range(response.header("content-range"));
    if (range == std::pair(partial.bytes(), file.size_bytes)) return;
    partial.begin_anew();
    throw HttpError("the server sent another part of the file than it was asked for", 206, true);
  }
  const std::string length(response.header("content-length"));
  if (!length.empty() && length != std::to_string(file.size_bytes)) {
    const bool is_page = response.header("content-type").starts_with("text/html");
    throw HttpError(fmt::format("the server sends {} of {} bytes, but lists the file with {}",
                                is_page ? "a web page" : "a file",
                                visible_line(shortened(length, 30)), file.size_bytes) +
                        (is_page ? "; a proxy or a log-in page may stand before it" : ""),
                    200, false);
  }
  if (partial.bytes() > 0) partial.begin_anew();
}

// Requests the missing bytes once.
void get_rest(const RemoteFile& file, HttpClient& http, PartialBlob& partial) {
  bool has_begun = false;
  http.get(file.url, partial.bytes(), [&](const HttpResponse& response, std::string_view bytes) {
    if (!has_begun) begin_answer(file, response, partial);
    has_begun = true;
    if (partial.bytes() + static_cast<int64_t>(bytes.size()) > file.size_bytes) {
      partial.begin_anew();
      throw HttpError(
          fmt::format("the server sends more than the {} bytes that it lists", file.size_bytes),
          200, false);
    }
    partial.add(bytes);
  });
  if (partial.bytes() < file.size_bytes) {
    throw HttpError(
        fmt::format("the server ended after {} of {} bytes", partial.bytes(), file.size_bytes), 200,
        true);
  }
}

// Requests bytes until all are there.
void get_all(const RemoteFile& file, HttpClient& http, double first_wait_s, PartialBlob& partial) {
  int tries = 0;
  while (partial.bytes() < file.size_bytes) {
    const int64_t before = partial.bytes();
    try {
      get_rest(file, http, partial);
    } catch (const HttpError& error) {
      if (partial.bytes() > before) tries = 0;
      // The server's file may not have the bytes that are already there.
      const bool is_past_end = error.status == 416 && before > 0;
      if (is_past_end) partial.begin_anew();
      if ((!error.is_temporary && !is_past_end) || ++tries == kMostTries) {
        refuse_blob(file, error.what() + (tries > 1 ? fmt::format(" ({} times)", tries) : ""));
      }
      const double factor = std::min<double>(1 << (tries - 1), kLongestWaitFactor);
      http.wait(std::max(first_wait_s * factor, error.retry_after_s));
    }
  }
}

}  // namespace

bool is_whole(const RemoteFile& file) {
  struct stat found {};
  return stat(file.blob.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         found.st_size == file.size_bytes;
}

int64_t partial_bytes(const RemoteFile& file) {
  struct stat found {};
  const bool is_there = lstat(incomplete(file).c_str(), &found) == 0 && S_ISREG(found.st_mode);
  return is_there && found.st_size <= file.size_bytes ? found.st_size : 0;
}

void fetch_blob(const RemoteFile& file, HttpClient& http, double first_wait_s,
                std::atomic<int64_t>& done_bytes) {
  make_folder(file.blob.parent_path());
  const LockFile lock(file.lock, [&] { http.wait(kLockWaitS); });
  if (is_whole(file)) {
    done_bytes += file.size_bytes;
    return;
  }
  PartialBlob partial(file, http, done_bytes);
  while (true) {
    get_all(file, http, first_wait_s, partial);
    const std::string hash = partial.hash();
    if (hash == file.hash.text) break;
    const bool was_taken_up = partial.taken_up_bytes() > 0;
    partial.begin_anew();
    if (was_taken_up) continue;  // the earlier bytes may have been wrong
    std::error_code gone;
    std::filesystem::remove(incomplete(file), gone);
    refuse_blob(file, fmt::format("the server sent wrong bytes: their {} is {}, it lists {}; they "
                                  "are removed",
                                  file.hash.kind(), hash, file.hash.text));
  }
  partial.rename_to_blob();
}

}  // namespace fsdp
