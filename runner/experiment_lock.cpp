#include "runner/experiment_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <system_error>

#include "runner/host.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::error_code& error) {
  throw std::system_error(error, "cannot write " + file.string() +
                                     "; free its place or choose another folder with --results");
}

}  // namespace

ExperimentLock::ExperimentLock(const std::filesystem::path& results,
                               const std::string& experiment) {
  std::error_code error;
  std::filesystem::create_directories(results, error);
  if (error) fail(results, error);
  const std::filesystem::path file = results / ('.' + safe_file_name(experiment) + ".lock");
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(file, {errno, std::generic_category()});
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    std::string owner;
    std::getline(std::ifstream(file), owner);
    close(descriptor_);
    throw std::runtime_error("another fsdp-run (" + owner + ") is at work on '" + experiment +
                             "' in " + results.string() +
                             "; wait for it, or stop it and call again");
  }
  const std::string owner = "process " + std::to_string(getpid()) + " on " + host_name() + '\n';
  if (ftruncate(descriptor_, 0) != 0 ||
      write(descriptor_, owner.data(), owner.size()) != static_cast<ssize_t>(owner.size())) {
    const std::error_code cause(errno, std::generic_category());
    close(descriptor_);
    fail(file, cause);
  }
}

ExperimentLock::~ExperimentLock() { close(descriptor_); }

}  // namespace fsdp
