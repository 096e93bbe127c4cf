#pragma once

#include <filesystem>
#include <optional>
#include <string>

// Single facts about this host, for the doctor. Absent facts are empty; nothing throws.
namespace fsdp {

bool is_executable(const std::filesystem::path& file);

// Returns the first line of `PROGRAM --version`.
std::string version_line(const std::string& program);
std::string nvidia_driver_version();

struct Space {
  double size_bytes = 0;
  double free_bytes = 0;  // for this user
  bool is_writable = false;
};
std::optional<Space> space_of(const std::filesystem::path& folder);
// Returns the longest part of `path` that exists.
std::filesystem::path existing_part(const std::filesystem::path& path);

// nullopt: unlimited.
struct HostLimits {
  std::optional<unsigned long> open_files;
  std::optional<unsigned long> locked_memory_bytes;
};
HostLimits host_limits();

std::string cpu_governor();
std::string clock_source();

}  // namespace fsdp
