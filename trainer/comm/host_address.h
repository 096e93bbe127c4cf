#pragma once

#include <string>

// Where hosts reach each other.
namespace fsdp {

// Where the other nodes of a Slurm job reach `node`: its name, where that resolves to more than
// loopback; else what Slurm has for it (NodeAddr); else the address that srun was started at.
std::string address_of_slurm_node(const std::string& node);

// This host's own address on the way to `host`. Throws std::runtime_error where there is no way.
std::string local_address_towards(const std::string& host);

}  // namespace fsdp
