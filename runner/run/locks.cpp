#include "runner/run/locks.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/files/disk_full.h"
#include "base/files/file_lock.h"
#include "base/system/processor.h"
#include "contract/record/run_paths.h"
#include "runner/host/host.h"

namespace fsdp {
namespace {

constexpr mode_t kForEveryone = 01777;  // like /tmp: users remove only their own files
constexpr size_t kLongestFile = 65'536;
constexpr size_t kLongestName = 200;
constexpr std::string_view kPrefix = "runner-";

std::filesystem::path claims_folder() {
  return std::filesystem::temp_directory_path() / "fsdp-run.devices";
}

[[noreturn]] void fail() {
  throw std::system_error(errno, std::generic_category(), claims_folder().string());
}

// Waits at most 3 s: another user may hold a lock forever, and stop signals wait meanwhile.
void lock(int descriptor) {
  constexpr int kTries = 300;
  for (int i = 0; !try_to_lock(descriptor, claims_folder()); ++i) {
    if (i == kTries) throw std::system_error(EWOULDBLOCK, std::generic_category(), claims_folder());
    usleep(10'000);
  }
}

int open_folder() {
  const std::filesystem::path folder = claims_folder();
  mkdir(folder.c_str(), kForEveryone);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) fail();
  struct stat status {};
  fstat(descriptor, &status);
  const bool may_be_used = (status.st_mode & kForEveryone) == kForEveryone;
  if (!may_be_used && status.st_uid == geteuid()) fchmod(descriptor, kForEveryone);  // undo umask
  return descriptor;
}

// Uses the descriptor, not the path: the folder's owner may put another folder there.
std::vector<std::string> claims_in(int folder) {
  std::vector<std::string> names;
  DIR* entries = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == nullptr) return names;
  while (const dirent* entry = readdir(entries)) {
    if (std::string_view(entry->d_name).starts_with(kPrefix)) names.emplace_back(entry->d_name);
  }
  closedir(entries);
  return names;
}

struct Claim {
  std::string who;
  DeviceNames devices;
};

// nullopt if the claim's runner has ended.
std::optional<Claim> read_claim(int folder, const std::string& name) {
  const int file = openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string text;
  if (!try_to_lock(file, name, LOCK_SH)) {
    text.resize(kLongestFile);
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, read(file, text.data(), text.size()))));
  }
  close(file);
  if (text.empty()) return std::nullopt;
  std::istringstream lines(text);
  Claim claim;
  std::getline(lines, claim.who);
  claim.who.resize(std::min(claim.who.size(), kLongestName));
  for (std::string device; lines >> device;) claim.devices.insert(device);
  return claim;
}

}  // namespace

DeviceNames own_cores(const std::string& host) {
  DeviceNames names;
  for (const int core : allowed_cpus()) names.insert(fmt::format("{}:cpu{}", host, core));
  return names;
}

std::optional<DeviceClaim> DeviceClaim::take(const DeviceNames& devices, const std::string& who,
                                             bool share, std::string& holders) {
  DeviceClaim claim(devices, open_folder());
  // Claims are made one at a time, so each sees all earlier ones.
  lock(claim.folder_);
  for (const std::string& name : claims_in(claim.folder_)) {
    if (!read_claim(claim.folder_, name)) unlinkat(claim.folder_, name.c_str(), 0);
  }
  const std::vector<std::string> others = claim.others();
  holders = fmt::format("{}", fmt::join(others, "; "));
  if (!others.empty() && !share) return std::nullopt;
  claim.write_file(who);
  flock(claim.folder_, LOCK_UN);
  return claim;
}

DeviceClaim::DeviceClaim(DeviceNames devices, int folder)
    : devices_(std::move(devices)), folder_(folder) {}

DeviceClaim::DeviceClaim(DeviceClaim&& other) noexcept
    : devices_(std::move(other.devices_)),
      folder_(std::exchange(other.folder_, -1)),
      file_(std::exchange(other.file_, -1)),
      name_(std::move(other.name_)) {}

DeviceClaim::~DeviceClaim() {
  if (file_ >= 0) {
    unlinkat(folder_, name_.c_str(), 0);
    close(file_);
  }
  if (folder_ >= 0) close(folder_);
}

void DeviceClaim::write_file(const std::string& who) {
  name_ = fmt::format("{}{}-{:08x}", kPrefix, getpid(), std::random_device()());
  // The file is private until it is locked.
  file_ =
      openat(folder_, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file_ < 0) fail();
  lock(file_);
  const std::string text = fmt::format("{}\n{}\n", who, fmt::join(devices_, " "));
  if (write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fchmod(file_, 0644) != 0) {
    fail();
  }
}

std::vector<std::string> DeviceClaim::others() const {
  std::vector<std::string> holders;
  for (const std::string& name : claims_in(folder_)) {
    if (name == name_) continue;
    const std::optional<Claim> claim = read_claim(folder_, name);
    const auto is_shared = [&](const std::string& device) { return devices_.contains(device); };
    if (claim && std::ranges::any_of(claim->devices, is_shared)) holders.push_back(claim->who);
  }
  return holders;
}

namespace {

// The lock file's note about a process that holds the lock only for a moment.
constexpr std::string_view kForAMoment = ", which asks Slurm about its jobs";
constexpr std::chrono::seconds kLongestMoment{60};
constexpr std::chrono::milliseconds kPause{100};

[[noreturn]] void fail(const std::filesystem::path& file, const std::error_code& error) {
  throw std::system_error(
      error,
      fmt::format("cannot write {}; {} or choose another folder with --results", file.string(),
                  is_disk_full(error.value())
                      ? "free space on its disk"
                      : "ask its owner for the right to write there (for a group: chmod "
                        "g+ws on the folder, umask 002 for everyone)"));
}

[[noreturn]] void fail_without_locks(const std::filesystem::path& file,
                                     const std::error_code& error) {
  throw std::system_error(
      error, "cannot lock " + file.string() +
                 ", which keeps two runners from the same experiment; mount its file system so "
                 "that flock() works (Lustre: with -o flock; NFS: with its lock service), or "
                 "choose a folder on another file system with --results");
}

// Returns the lock's descriptor. Returns -1 if another process has the lock, and sets `owner` to
// its name. `purpose` is added to the name that others see.
int lock(const std::filesystem::path& results, const std::string& experiment, std::string& owner,
         std::string_view purpose = "") {
  std::error_code error;
  std::filesystem::create_directories(results, error);
  if (error) fail(results, error);
  const std::filesystem::path file = results / ('.' + file_name_of(experiment) + ".lock");
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(file, {errno, std::generic_category()});
  bool is_locked = false;
  try {
    is_locked = try_to_lock(descriptor, file);
  } catch (const std::system_error& error) {
    close(descriptor);
    fail_without_locks(file, error.code());
  }
  if (!is_locked) {
    std::getline(std::ifstream(file), owner);
    close(descriptor);
    return -1;
  }
  const std::string self = fmt::format("process {} on {}{}\n", getpid(), host_name(), purpose);
  const bool is_written =
      ftruncate(descriptor, 0) == 0 &&
      write(descriptor, self.data(), self.size()) == static_cast<ssize_t>(self.size());
  const std::error_code cause(is_written ? 0 : errno, std::generic_category());
  // On a full disk the lock holds without a name, because prune needs it to free space.
  if (is_written || is_disk_full(cause.value())) return descriptor;
  close(descriptor);
  fail(file, cause);
}

}  // namespace

ExperimentLock::ExperimentLock(const std::filesystem::path& results, const std::string& experiment,
                               const std::function<void(const std::string&)>& say) {
  const auto end = std::chrono::steady_clock::now() + kLongestMoment;
  std::string awaited;
  for (std::string owner; (descriptor_ = lock(results, experiment, owner)) < 0;) {
    if (!owner.ends_with(kForAMoment) || std::chrono::steady_clock::now() >= end) {
      throw std::runtime_error(fmt::format(
          "another fsdp-run ({}) is at work on '{}' in {}; wait for it, or stop it and call again",
          owner, experiment, results.string()));
    }
    if (owner != awaited) say("waits for " + owner);
    awaited = owner;
    std::this_thread::sleep_for(kPause);
  }
}

std::unique_ptr<ExperimentLock> ExperimentLock::held(int descriptor) {
  return std::unique_ptr<ExperimentLock>(descriptor < 0 ? nullptr : new ExperimentLock(descriptor));
}

std::unique_ptr<ExperimentLock> ExperimentLock::if_free(const std::filesystem::path& results,
                                                        const std::string& experiment,
                                                        std::string& owner) {
  return held(lock(results, experiment, owner));
}

std::unique_ptr<ExperimentLock> ExperimentLock::for_a_moment(const std::filesystem::path& results,
                                                             const std::string& experiment) {
  std::string owner;
  return held(lock(results, experiment, owner, kForAMoment));
}

ExperimentLock::~ExperimentLock() { close(descriptor_); }

}  // namespace fsdp
