#include "runner/host/host_facts.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "runner/host/environment.h"

namespace fsdp {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

std::optional<unsigned long> soft_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

bool is_executable(const std::filesystem::path& file) { return access(file.c_str(), X_OK) == 0; }

std::string version_line(const std::string& program) {
  FILE* pipe = popen((shell_quoted(program) + " --version 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 256> bytes{};
  for (size_t count; (count = fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) {
    text.append(bytes.data(), count);
  }
  pclose(pipe);
  return text.substr(0, text.find('\n'));
}

std::string nvidia_driver_version() {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."
  const std::string line = first_line("/proc/driver/nvidia/version");
  const size_t start = line.find("  ");
  if (start == std::string::npos) return line;
  const size_t end = line.find(' ', start + 2);
  return line.substr(start + 2, end == std::string::npos ? end : end - start - 2);
}

std::optional<Space> space_of(const std::filesystem::path& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return std::nullopt;
  const auto block = static_cast<double>(status.f_frsize);
  return Space{.size_bytes = block * static_cast<double>(status.f_blocks),
               .free_bytes = block * static_cast<double>(status.f_bavail),
               .is_writable = access(folder.c_str(), W_OK) == 0};
}

std::filesystem::path existing_part(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path part = std::filesystem::absolute(path, error).lexically_normal();
  while (!std::filesystem::exists(part, error) && part.has_relative_path()) {
    part = part.parent_path();
  }
  return part;
}

HostLimits host_limits() {
  return {.open_files = soft_limit(RLIMIT_NOFILE),
          .locked_memory_bytes = soft_limit(RLIMIT_MEMLOCK)};
}

std::string cpu_governor() {
  return first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

std::string clock_source() {
  return first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

}  // namespace fsdp
