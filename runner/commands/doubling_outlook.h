#pragma once

#include <span>
#include <string>

#include "runner/store/comparison.h"

namespace fsdp {

// A line per doubled key of runs in jobs of Slurm whose search may go on: who submits the run of
// its next value, and when. The rows are those of whole experiments.
std::string doubling_outlook(std::span<const ComparisonRow> rows);

}  // namespace fsdp
