#pragma once

#include <exception>
#include <string>

#include "contract/record/exit_code.h"

namespace fsdp {

// The exit code of a process that ends because of an error, and the reason that it gives.
struct Failure {
  ExitCode code = ExitCode::kRunFailed;
  std::string reason;
};

// Returns kOutOfMemory also if a CUDA library says in its own words that it could not allocate.
Failure failure_of(const std::exception_ptr& error);

}  // namespace fsdp
