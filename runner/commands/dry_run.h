#pragma once

#include "contract/record/exit_code.h"
#include "runner/commands/run_arguments.h"

namespace fsdp {

// Prints the specification of each run. Starts, creates and writes nothing.
ExitCode dry_run(const RunArguments& options);

}  // namespace fsdp
