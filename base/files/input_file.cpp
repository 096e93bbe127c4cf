// Reads files of users by pread, never by a mapping: a file that is cut short is an error.
#include "base/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "base/system/start_up.h"
#include "base/text/config_error.h"
#include "base/text/fields.h"
#include "base/text/foreign_json.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr std::string_view kGitLfs = "version https://git-lfs.github.com/spec/";

// Replaces each digit by 0. Parts of one set of files, such as shards, then have equal names.
std::string without_numbers(std::string name) {
  for (char& c : name) {
    if (c >= '0' && c <= '9') c = '0';
  }
  return name;
}

// Describes a missing path: a name like the missing one, else the part of the path that exists.
std::string what_is_there(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::filesystem::path there = existing_part(path);
  const std::filesystem::path whole = std::filesystem::absolute(path, unknown).lexically_normal();
  const std::filesystem::path missing = *whole.lexically_relative(there).begin();
  constexpr size_t kMostNames = 1'000;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(there, unknown)) {
    if (names.size() == kMostNames) break;
    if (entry.path().extension() == missing.extension()) names.push_back(entry.path().filename());
  }
  const std::string nearest = nearest_name(missing.string(), names);
  const auto is_other_part = [&](const std::string& name) {
    return without_numbers(name) == without_numbers(missing);
  };
  if (const auto part = std::ranges::find_if(names, is_other_part); part != names.end()) {
    return "; files of this name with other numbers are there, such as " + *part +
           ", but this one is missing";
  }
  if (!nearest.empty()) {
    return "; did you mean '" + (there / nearest).string() + "'?";
  }
  return "; of this path there is " + there.string();
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  begin_start_up_part("reading " + path_.string());
  // Non-blocking, so a named pipe is refused instead of waited for.
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse_unreadable(path_, {errno, std::generic_category()});
  try {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) {
      refuse_unreadable(path_, {errno, std::generic_category()});
    }
    if (S_ISDIR(status.st_mode)) {
      refuse_unreadable(path_, std::make_error_code(std::errc::is_a_directory));
    }
    if (!S_ISREG(status.st_mode)) refuse_file(path_, "cannot be read: it is not a regular file");
    size_bytes_ = static_cast<uint64_t>(status.st_size);
    std::string begin(std::min<uint64_t>(kGitLfs.size(), size_bytes_), '\0');
    read(0, std::as_writable_bytes(std::span(begin)));
    if (begin == kGitLfs) {
      refuse_file(path_, "is a pointer of Git LFS, not the file itself; call `git lfs pull` there");
    }
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

InputFile::InputFile(std::filesystem::path path, std::span<const std::byte> contents)
    : path_(std::move(path)), contents_(contents), size_bytes_(contents.size()) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void InputFile::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_bytes_ || out.size() > size_bytes_ - offset) {
    throw std::logic_error(path_.string() + ": read beyond its end");
  }
  if (descriptor_ < 0) {
    std::ranges::copy(contents_.subspan(offset, out.size()), out.begin());
    return;
  }
  while (!out.empty()) {
    const ssize_t count = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_unreadable(path_, {errno, std::generic_category()});
    // The size was known when the file was opened.
    if (count == 0) {
      refuse_file(path_, "was cut short while it was read; run again when nothing writes to it");
    }
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
}

std::string InputFile::read_text(uint64_t offset, uint64_t count) const {
  std::string text(std::min(count, size_bytes_ - std::min(offset, size_bytes_)), '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

void InputFile::read_blocks(uint64_t offset, uint64_t count,
                            const std::function<void(std::span<const std::byte>)>& visit) const {
  std::vector<std::byte> block(std::min<uint64_t>(kBlockBytes, count));
  while (count > 0) {
    const auto bytes = std::span(block).first(std::min<uint64_t>(kBlockBytes, count));
    read(offset, bytes);
    visit(bytes);
    continue_start_up_part();
    offset += bytes.size();
    count -= bytes.size();
  }
}

std::string read_input_file(const std::filesystem::path& path, size_t most_bytes) {
  const InputFile file(path);
  if (file.size_bytes() > most_bytes) {
    refuse_file(path, "holds " + std::to_string(file.size_bytes()) + " bytes; allowed: at most " +
                          std::to_string(most_bytes));
  }
  return file.read_text(0, file.size_bytes());
}

void refuse_changed(const std::filesystem::path& path) {
  refuse_file(path, "changed while it was read; run again when nothing writes to it");
}

void refuse_unreadable(const std::filesystem::path& path, const std::error_code& error) {
  std::string problem = "cannot be read: " + error.message();
  if (error == std::errc::no_such_file_or_directory) problem += what_is_there(path);
  refuse_file(path, problem);
}

std::filesystem::path existing_part(const std::filesystem::path& path) {
  std::error_code unknown;
  std::filesystem::path part = std::filesystem::absolute(path, unknown).lexically_normal();
  while (!std::filesystem::exists(part, unknown) && part.has_relative_path()) {
    part = part.parent_path();
  }
  return part;
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

nlohmann::json read_json_object(const std::filesystem::path& path) {
  return parse_json_object(path, read_input_file(path, kLargestJsonBytes));
}

nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text,
                                 size_t largest_bytes) {
  try {
    nlohmann::json value = parse_foreign_json(text, largest_bytes);
    if (value.is_object()) return value;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    refuse_file(path, std::string("is not JSON: ") + error.what());
  }
  refuse_file(path, "is not a JSON object");
}

void refuse_file(const std::filesystem::path& path, const std::string& problem) {
  throw ConfigError(path.string(), "", shortened(problem, kMostOfMessage));
}

}  // namespace fsdp
