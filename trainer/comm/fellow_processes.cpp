// Watches the ranks of this host by descriptors of their processes. A descriptor stays with its
// process, even if the system uses the number again.
#include "trainer/comm/fellow_processes.h"

#include <poll.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace fsdp {
namespace {

// Returns the key for the processes of one boot and one PID namespace. They see each other's ids.
std::string key_of_host() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code unknown;
  const auto ids = std::filesystem::read_symlink("/proc/self/ns/pid", unknown);
  return "processes/" + boot + '/' + ids.string() + '/';
}

}  // namespace

void register_process(c10d::Store& store, int rank, pid_t process) {
  const std::string key = key_of_host();
  const int64_t place = store.add(key, 1);
  store.set(key + std::to_string(place), std::to_string(rank) + ' ' + std::to_string(process));
}

FellowProcesses::~FellowProcesses() {
  for (const Fellow& fellow : fellows_) {
    if (fellow.descriptor >= 0) close(fellow.descriptor);
  }
}

void FellowProcesses::meet(c10d::Store& store) {
  const std::string host = key_of_host();
  const int64_t registered = store.add(host, 0);
  for (int64_t place = 1; place <= registered; ++place) {
    const std::string key = host + std::to_string(place);
    if (!store.check({key})) continue;  // its process was started too often and is refused
    int rank = 0;
    pid_t process = 0;
    std::istringstream(store.get_to_str(key)) >> rank >> process;
    if (process == getpid()) continue;
    const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    if (descriptor >= 0 || errno == ESRCH) fellows_.push_back({rank, descriptor});
  }
}

bool FellowProcesses::Fellow::is_gone(std::chrono::milliseconds patience) const {
  pollfd end{.fd = descriptor, .events = POLLIN, .revents = 0};
  return descriptor < 0 || poll(&end, 1, static_cast<int>(patience.count())) > 0;
}

std::optional<int> FellowProcesses::find_gone() const {
  for (const Fellow& fellow : fellows_) {
    if (fellow.is_gone(std::chrono::milliseconds(0))) return fellow.rank;
  }
  return std::nullopt;
}

bool FellowProcesses::is_gone(int rank, std::chrono::milliseconds patience) const {
  const auto found = std::ranges::find(fellows_, rank, &Fellow::rank);
  return found != fellows_.end() && found->is_gone(patience);
}

}  // namespace fsdp
