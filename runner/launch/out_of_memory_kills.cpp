#include "runner/launch/out_of_memory_kills.h"

#include <fstream>
#include <string>
#include <string_view>

namespace fsdp {

namespace {

// Of lines "NAME COUNT".
std::optional<int64_t> count_of(const std::filesystem::path& file, std::string_view wanted) {
  std::ifstream lines(file);
  std::string name;
  for (int64_t count = 0; lines >> name >> count;) {
    if (name == wanted) return count;
  }
  return std::nullopt;
}

int64_t hits_in(const std::filesystem::path& cgroup) {
  int64_t hits = count_of(cgroup / "memory.events", "oom").value_or(0);
  if (int64_t count = 0; std::ifstream(cgroup / "memory.failcnt") >> count) hits += count;
  return hits;
}

// Below `root`, up to it: a limit may be that of a cgroup further up.
int64_t hits_on_the_way(const std::filesystem::path& root, std::filesystem::path own) {
  int64_t hits = hits_in(root);
  for (own = own.relative_path(); !own.empty(); own = own.parent_path())
    hits += hits_in(root / own);
  return hits;
}

}  // namespace

std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file) {
  return count_of(file, "oom_kill");
}

int64_t memory_limit_hits(const std::filesystem::path& own_cgroups,
                          const std::filesystem::path& cgroups) {
  std::ifstream lines(own_cgroups);  // "4:memory:/job_7", in version 2 "0::/job_7"
  int64_t hits = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t controllers = line.find(':') + 1;
    const size_t path = line.find(':', controllers) + 1;
    if (controllers == 0 || path == 0) continue;
    const std::string_view of = std::string_view(line).substr(controllers, path - 1 - controllers);
    if (of == "memory") hits += hits_on_the_way(cgroups / "memory", line.substr(path));
    if (of.empty()) hits += hits_on_the_way(cgroups, line.substr(path));
  }
  return hits;
}

}  // namespace fsdp
