#pragma once

#include <string>

namespace fsdp {

// "AMD EPYC 9554P 64-Core Processor", as the kernel names it.
std::string processor_name();

}  // namespace fsdp
