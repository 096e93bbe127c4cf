#include "runner/sweep/experiment_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <system_error>

#include "runner/host/host.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::error_code& error) {
  throw std::system_error(error, "cannot write " + file.string() +
                                     "; free its place or choose another folder with --results");
}

// -1: another process has it; `owner` is told which.
int lock(const std::filesystem::path& results, const std::string& experiment, std::string& owner) {
  std::error_code error;
  std::filesystem::create_directories(results, error);
  if (error) fail(results, error);
  const std::filesystem::path file = results / ('.' + safe_file_name(experiment) + ".lock");
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(file, {errno, std::generic_category()});
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    std::getline(std::ifstream(file), owner);
    close(descriptor);
    return -1;
  }
  const std::string self = "process " + std::to_string(getpid()) + " on " + host_name() + '\n';
  if (ftruncate(descriptor, 0) != 0 ||
      write(descriptor, self.data(), self.size()) != static_cast<ssize_t>(self.size())) {
    const std::error_code cause(errno, std::generic_category());
    close(descriptor);
    fail(file, cause);
  }
  return descriptor;
}

}  // namespace

ExperimentLock::ExperimentLock(const std::filesystem::path& results,
                               const std::string& experiment) {
  std::string owner;
  descriptor_ = lock(results, experiment, owner);
  if (descriptor_ < 0) {
    throw std::runtime_error("another fsdp-run (" + owner + ") is at work on '" + experiment +
                             "' in " + results.string() +
                             "; wait for it, or stop it and call again");
  }
}

std::unique_ptr<ExperimentLock> ExperimentLock::if_free(const std::filesystem::path& results,
                                                        const std::string& experiment,
                                                        std::string& owner) {
  const int descriptor = lock(results, experiment, owner);
  if (descriptor < 0) return nullptr;
  return std::unique_ptr<ExperimentLock>(new ExperimentLock(descriptor));
}

ExperimentLock::~ExperimentLock() { close(descriptor_); }

}  // namespace fsdp
