#pragma once

#include <vector>

#include "contract/spec/run_spec.h"
#include "formats/inputs/inputs.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Returns the input files that ranks compare. Files of the checkpoint that the run resumes from are
// left out; they are compared when it is opened (see resume.h). Throws ConfigError.
std::vector<NamedInput> compared_files(const RunSpec& spec);

// Throws ConfigError on every rank, with the key and both values, if a rank differs from rank 0.
// Compares the program, --attempt, the keys of the run, and the contents of `files`. Paths of
// inputs may differ: only the contents count. `attempt` is 0 if it was not given.
//
// A file is read only if stat(2)'s answers differ between ranks. Then one rank reads it for each
// answer.
void require_same_run(const RunSpec& spec, int attempt, const std::vector<NamedInput>& files,
                      ProcessGroup& world);

}  // namespace fsdp
