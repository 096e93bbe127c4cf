// Reads limits of cgroups, versions 1 and 2. A file without a whole number sets no limit.
#include "base/system/cgroups.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {
namespace {

using std::filesystem::path;

// True if `controllers`, such as "cpu,cpuacct", has `wanted`.
bool has_controller(const std::string& controllers, const std::string& wanted) {
  return (',' + controllers + ',').find(',' + wanted + ',') != std::string::npos;
}

// The folders of the process's own cgroup and of those around it, up to `root`. Inside a container
// the path may be the host's. Then only `root` exists, and it is the container's own cgroup.
std::vector<path> folders_up_to(const path& root, const path& own) {
  std::vector<path> folders;
  const path below = own.relative_path();
  const bool is_below = std::ranges::find(below, path("..")) == below.end();
  for (path part = is_below ? below : path(); !part.empty(); part = part.parent_path()) {
    std::error_code not_there;
    if (std::filesystem::is_directory(root / part, not_there)) folders.push_back(root / part);
  }
  folders.push_back(root);
  return folders;
}

// The process's cgroups of this controller, its own first.
std::vector<path> cgroups_of(const std::string& controller, const CgroupPlaces& places) {
  std::vector<path> folders;
  std::ifstream lines(places.own);  // "4:cpu,cpuacct:/job_7", in version 2 "0::/job_7"
  for (std::string line; std::getline(lines, line);) {
    const size_t controllers = line.find(':') + 1;
    const size_t own = line.find(':', controllers) + 1;
    if (controllers == 0 || own == 0) continue;
    const std::string names = line.substr(controllers, own - 1 - controllers);
    if (!names.empty() && !has_controller(names, controller)) continue;
    const path root = names.empty() ? places.root : places.root / names;
    std::ranges::move(folders_up_to(root, line.substr(own)), std::back_inserter(folders));
  }
  return folders;
}

// Reads the next word of `words` as a whole number of at least 0; nullopt if it is none, such as
// "max", "-1" or "5M".
std::optional<int64_t> next_number(std::istream& words) {
  std::string word;
  words >> word;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = error == std::errc() && end == word.data() + word.size() && number >= 0;
  return is_whole ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> number_in(const path& file) {
  std::ifstream words(file);
  return next_number(words);
}

// The CPU quota in cores; infinite if there is none.
double quota_of(const path& cgroup) {
  std::ifstream version_2(cgroup / "cpu.max");
  std::optional<int64_t> quota = next_number(version_2);
  std::optional<int64_t> period = next_number(version_2);
  if (!period) {
    quota = number_in(cgroup / "cpu.cfs_quota_us");
    period = number_in(cgroup / "cpu.cfs_period_us");
  }
  const bool is_quota = quota.value_or(0) > 0 && period.value_or(0) > 0;
  return is_quota ? double(*quota) / double(*period) : std::numeric_limits<double>::infinity();
}

// memory.high counts as a limit, too. Above it the kernel ends no process, but slows them down
// until a run stands still.
int64_t limit_of(const path& cgroup) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (const char* file : {"memory.max", "memory.high", "memory.limit_in_bytes"}) {
    limit = std::min(limit, number_in(cgroup / file).value_or(limit));
  }
  return limit;
}

// Returns the COUNT of `name` in a file of lines "NAME COUNT". nullopt if `name` is not there.
std::optional<int64_t> count_in(const path& file, std::string_view name) {
  std::ifstream lines(file);
  std::string found;
  for (int64_t count = 0; lines >> found >> count;) {
    if (found == name) return count;
  }
  return std::nullopt;
}

int64_t host_memory_bytes() { return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); }

}  // namespace

double cgroup_cores(const CgroupPlaces& places) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const path& cgroup : cgroups_of("cpu", places)) {
    smallest = std::min(smallest, quota_of(cgroup));
  }
  return smallest;
}

int64_t memory_kills(const CgroupPlaces& places) {
  for (const path& cgroup : cgroups_of("memory", places)) {
    for (const char* file : {"memory.events", "memory.oom_control"}) {
      if (const auto kills = count_in(cgroup / file, "oom_kill")) return *kills;
    }
  }
  return 0;
}

std::optional<int64_t> cgroup_memory_limit_bytes(const CgroupPlaces& places) {
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const path& cgroup : cgroups_of("memory", places)) {
    smallest = std::min(smallest, limit_of(cgroup));
  }
  const bool is_limit =
      smallest < host_memory_bytes();  // without one, version 1 has a large number
  return is_limit ? std::optional(smallest) : std::nullopt;
}

int64_t memory_available_bytes(const CgroupPlaces& places) {
  return cgroup_memory_limit_bytes(places).value_or(host_memory_bytes());
}

}  // namespace fsdp
