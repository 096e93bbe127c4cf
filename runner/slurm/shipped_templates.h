#pragma once

#include <string_view>

// The files in slurm_templates/, which the build puts into the program.
namespace fsdp {

extern const std::string_view kPerRunTemplate;
extern const std::string_view kAllocationTemplate;

}  // namespace fsdp
