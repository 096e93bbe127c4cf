#pragma once

#include <vector>

#include "contract/inputs/inputs.h"
#include "contract/spec/run_spec.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// The input files that ranks compare: all but those of the checkpoint that the run resumes from,
// which are compared when it is opened (see resume.h). Throws ConfigError.
std::vector<NamedInput> compared_files(const RunSpec& spec);

// Throws ConfigError on every rank, with the key and both values, if a rank was started with
// another program, --attempt, key of the run, or contents of one of `files` than rank 0. Paths of
// inputs may differ: only the contents count. `attempt` is 0 if it was not given.
//
// A file that stat(2) does not tell from rank 0's is not read. Others are read once for each answer
// of stat(2).
void require_same_run(const RunSpec& spec, int attempt, const std::vector<NamedInput>& files,
                      ProcessGroup& world);

}  // namespace fsdp
