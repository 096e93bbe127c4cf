#include "contract/files/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <vector>

#include "contract/record/start_up.h"
#include "contract/text/config_error.h"
#include "contract/text/fields.h"
#include "contract/text/foreign_json.h"
#include "contract/text/utf8.h"

namespace fsdp {
namespace {

class Descriptor {
 public:
  // Non-blocking, so that a named pipe is refused instead of waited for.
  explicit Descriptor(const std::filesystem::path& path)
      : value_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int value() const { return value_; }

 private:
  int value_;
};

[[noreturn]] void fail(int error, const std::filesystem::path& path) {
  throw std::system_error(error, std::generic_category(), path.string());
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor descriptor(path);
  struct stat status;
  if (descriptor.value() < 0 || fstat(descriptor.value(), &status) != 0) fail(errno, path);
  if (S_ISDIR(status.st_mode)) fail(EISDIR, path);
  if (!S_ISREG(status.st_mode)) fail(EINVAL, path);
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* const data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.value(), 0);
  if (data == MAP_FAILED) fail(errno, path);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::forget(size_t offset, size_t count) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + count) / page * page;
  if (begin < end) {
    madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

namespace {

// Of a path that leads nowhere: a name like the one that is missing, else how far it leads.
std::string what_is_there(const std::filesystem::path& path) {
  std::error_code unknown;
  std::filesystem::path missing = std::filesystem::absolute(path, unknown).lexically_normal();
  while (missing.has_relative_path() && !std::filesystem::exists(missing.parent_path(), unknown)) {
    missing = missing.parent_path();
  }
  constexpr size_t kMostNames = 1'000;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(missing.parent_path(), unknown)) {
    if (names.size() == kMostNames) break;
    if (entry.path().extension() == missing.extension()) names.push_back(entry.path().filename());
  }
  const std::string nearest = nearest_name(missing.filename().string(), names);
  if (!nearest.empty()) {
    return "; did you mean '" + (missing.parent_path() / nearest).string() + "'?";
  }
  return "; of this path there is " + missing.parent_path().string();
}

}  // namespace

std::shared_ptr<const MappedFile> map_input_file(const std::filesystem::path& path) {
  begin_start_up_part("reading " + path.string());
  try {
    auto file = std::make_shared<const MappedFile>(path);
    if (file->text().starts_with("version https://git-lfs.github.com/spec/")) {
      refuse_file(path, "is a pointer of Git LFS, not the file itself; call `git lfs pull` there");
    }
    return file;
  } catch (const std::system_error& error) {
    refuse_unreadable(path, error.code());
  }
}

void refuse_unreadable(const std::filesystem::path& path, const std::error_code& error) {
  std::string problem = "cannot be read: " + error.message();
  if (error == std::errc::no_such_file_or_directory) problem += what_is_there(path);
  refuse_file(path, problem);
}

bool input_exists(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) refuse_file(path, "cannot be read: " + error.message());
  return exists;
}

nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text) {
  return parse_json_object(path, text, kLargestJsonBytes);
}

nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text,
                                 size_t largest_bytes) {
  try {
    nlohmann::json value = parse_foreign_json(text, largest_bytes);
    if (value.is_object()) return value;
  } catch (const std::exception& error) {
    refuse_file(path, std::string("is not JSON: ") + error.what());
  }
  refuse_file(path, "is not a JSON object");
}

void refuse_file(const std::filesystem::path& path, const std::string& problem) {
  throw ConfigError(path.string(), "", shortened(problem, kMostOfMessage));
}

}  // namespace fsdp
