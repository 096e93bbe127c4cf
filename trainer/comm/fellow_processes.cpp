#include "trainer/comm/fellow_processes.h"

#include <poll.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fsdp {
namespace {

// Returns a text for one boot and one PID namespace. Processes with the same text see each other's
// ids.
std::string place_of_processes() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code unknown;
  return boot + '/' + std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
}

}  // namespace

FellowProcesses::FellowProcesses() : key_("processes/" + place_of_processes() + '/') {}

FellowProcesses::~FellowProcesses() {
  for (const Fellow& fellow : fellows_) {
    if (fellow.descriptor >= 0) close(fellow.descriptor);
  }
}

void FellowProcesses::join(c10d::Store& store, int rank, pid_t process) {
  const int64_t place = store.add(key_, 1);
  store.set(key_ + std::to_string(place), std::to_string(rank) + ' ' + std::to_string(process));
}

void FellowProcesses::meet(c10d::Store& store) {
  for (const int64_t joined = store.add(key_, 0); met_ < joined; ++met_) {
    const std::string key = key_ + std::to_string(met_ + 1);
    if (!store.check({key})) return;
    int rank = 0;
    pid_t process = 0;
    std::istringstream(store.get_to_str(key)) >> rank >> process;
    if (process == getpid()) continue;
    const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    if (descriptor >= 0 || errno == ESRCH) fellows_.push_back({rank, descriptor});
  }
}

std::optional<int> FellowProcesses::find_gone(std::chrono::milliseconds patience) const {
  std::vector<pollfd> ends;
  for (const Fellow& fellow : fellows_) {
    if (fellow.descriptor < 0) return fellow.rank;
    ends.push_back({.fd = fellow.descriptor, .events = POLLIN, .revents = 0});
  }
  if (ends.empty() || poll(ends.data(), ends.size(), static_cast<int>(patience.count())) <= 0) {
    return std::nullopt;
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].revents != 0) return fellows_[i].rank;
  }
  return std::nullopt;
}

}  // namespace fsdp
