#pragma once

#include <string_view>

namespace fsdp {

extern const std::string_view kJobTemplate;  // slurm_templates/job.sh

}  // namespace fsdp
