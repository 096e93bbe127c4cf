#pragma once

#include "runner/commands/run_arguments.h"
#include "trainer/contract/exit_code.h"

namespace fsdp {

// Prints the specification of each run. Starts, creates and writes nothing.
ExitCode dry_run(const RunArguments& options);

}  // namespace fsdp
