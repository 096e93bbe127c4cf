#include "runner/sweep/experiment_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "contract/record/run_paths.h"
#include "runner/host/host.h"

namespace fsdp {
namespace {

// The lock file's note about a process that holds the lock only for a moment.
constexpr std::string_view kForAMoment = ", which asks Slurm about its jobs";
constexpr std::chrono::seconds kLongestMoment{60};
constexpr std::chrono::milliseconds kPause{100};

[[noreturn]] void fail(const std::filesystem::path& file, const std::error_code& error) {
  throw std::system_error(error, "cannot write " + file.string() +
                                     "; free its place or choose another folder with --results");
}

[[noreturn]] void fail_without_locks(const std::filesystem::path& file,
                                     const std::error_code& error) {
  throw std::system_error(
      error, "cannot lock " + file.string() +
                 ", which keeps two runners from the same experiment; mount its file system so "
                 "that flock() works (Lustre: with -o flock; NFS: with its lock service), or "
                 "choose a folder on another one with --results");
}

// Returns the lock's descriptor. Returns -1 if another process has the lock, and sets `owner` to
// its name. `purpose` is added to the name that others see.
int lock(const std::filesystem::path& results, const std::string& experiment, std::string& owner,
         std::string_view purpose = "") {
  std::error_code error;
  std::filesystem::create_directories(results, error);
  if (error) fail(results, error);
  const std::filesystem::path file = results / ('.' + file_name_of(experiment) + ".lock");
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(file, {errno, std::generic_category()});
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const std::error_code cause(errno, std::generic_category());
    if (cause != std::errc::operation_would_block) {
      close(descriptor);
      fail_without_locks(file, cause);
    }
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
  const bool is_full = cause == std::errc::no_space_on_device || cause.value() == EDQUOT;
  if (is_written || is_full) return descriptor;
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
