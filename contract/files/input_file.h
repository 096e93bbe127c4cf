#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

// Reading files that the user supplied: what is wrong with one is a ConfigError whose place is the
// file.
namespace fsdp {

// A regular file, open for reading. It is not mapped: if others cut a mapped file short, whoever
// reads it ends with SIGBUS.
class InputFile {
 public:
  // Throws ConfigError when the file cannot be read, or only stands for one in Git LFS.
  explicit InputFile(std::filesystem::path path);
  // The same of a file's contents, which the caller keeps. Errors name `path`.
  InputFile(std::filesystem::path path, std::span<const std::byte> contents);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }       // -1: of contents
  uint64_t size_bytes() const { return size_bytes_; }  // when it was opened

  // Fills `out` with the bytes from `offset` on, within size_bytes(). Throws ConfigError when they
  // cannot be read, or the file was cut short. Threads may call it at once.
  void read(uint64_t offset, std::span<std::byte> out) const;

  // Calls visit(bytes) for one block after the other of these bytes. All but the last hold
  // kBlockBytes.
  static constexpr size_t kBlockBytes = 1 << 20;
  void read_blocks(uint64_t offset, uint64_t count,
                   const std::function<void(std::span<const std::byte>)>& visit) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const std::byte> contents_;
  uint64_t size_bytes_ = 0;
};

inline constexpr size_t kLargestWholeFileBytes = size_t{1} << 30;

// All of a file. Throws ConfigError as InputFile, and when it holds more bytes than that.
std::string read_input_file(const std::filesystem::path& path,
                            size_t most_bytes = kLargestWholeFileBytes);

// Whether there is something of this name. Throws ConfigError when that cannot be told: a folder
// that may not be entered, links in a circle.
bool input_exists(const std::filesystem::path& path);

// Parses `text`, which stands in `path`, as a JSON object. Throws ConfigError, also when it is
// larger than any such document (see foreign_json.h).
nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text);
nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text,
                                 size_t largest_bytes);
// All of a file. Throws ConfigError as read_input_file does, too.
nlohmann::json read_json_object(const std::filesystem::path& path);

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& problem);
// Of one that is not there it is said what is.
[[noreturn]] void refuse_unreadable(const std::filesystem::path& path,
                                    const std::error_code& error);
[[noreturn]] void refuse_changed(const std::filesystem::path& path);

}  // namespace fsdp
