#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

// Reads files that the user supplied. Each error is a ConfigError whose place is the file.
namespace fsdp {

// A regular file, open for reading. It is not mapped: if a mapped file is cut short, SIGBUS kills
// its reader.
class InputFile {
 public:
  // Throws ConfigError if the file cannot be read or is a pointer of Git LFS.
  explicit InputFile(std::filesystem::path path);
  // Reads `contents` in memory instead of a file; the caller keeps them alive. Errors name `path`.
  InputFile(std::filesystem::path path, std::span<const std::byte> contents);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }       // -1: reads `contents`
  uint64_t size_bytes() const { return size_bytes_; }  // when it was opened

  // Fills `out` with the bytes from `offset` on, within size_bytes(). Throws ConfigError if they
  // cannot be read or the file was cut short. Several threads may call it at once.
  void read(uint64_t offset, std::span<std::byte> out) const;

  // Returns the bytes from `offset` on: `count`, or fewer if the file ends before.
  std::string read_text(uint64_t offset, uint64_t count) const;

  // Calls visit(bytes) for each block of the `count` bytes from `offset` on, in order. All blocks
  // except the last hold kBlockBytes.
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

// Returns the whole file. Throws ConfigError as InputFile does, or if it is larger than
// `most_bytes`.
std::string read_input_file(const std::filesystem::path& path,
                            size_t most_bytes = kLargestWholeFileBytes);

// True if the path exists. Throws ConfigError if that cannot be determined: a folder denies access,
// or links form a circle.
bool input_exists(const std::filesystem::path& path);

// The longest part of the path that exists.
std::filesystem::path existing_part(const std::filesystem::path& path);

// Parses `text`, from the file `path`, as a JSON object. Throws ConfigError if it is not one, or is
// beyond the limits of parse_foreign_json().
nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text);
nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text,
                                 size_t largest_bytes);
// Parses a whole file. Also throws ConfigError as read_input_file does.
nlohmann::json read_json_object(const std::filesystem::path& path);

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& problem);
// If the file is missing, the error says which part of its path exists.
[[noreturn]] void refuse_unreadable(const std::filesystem::path& path,
                                    const std::error_code& error);
[[noreturn]] void refuse_changed(const std::filesystem::path& path);

}  // namespace fsdp
