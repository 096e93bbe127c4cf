#pragma once

namespace fsdp {

// The exit statuses of both programs.
enum class ExitCode : int {
  kOk = 0,
  kRunFailed = 1,
  kBadConfiguration = 2,
  kNotPlanned = 3,     // runner only, with --require-fit
  kOutOfMemory = 3,    // trainer only
  kCommunication = 4,  // trainer only
  kInterrupted = 130,
};

}  // namespace fsdp
