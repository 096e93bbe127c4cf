#pragma once

#include <string>

// The addresses at which hosts reach each other.
namespace fsdp {

// Returns the address at which the other nodes of a Slurm job reach `node`. It is the node's name,
// if that resolves to more than loopback, else Slurm's NodeAddr. Otherwise it is the address of
// srun's host.
std::string address_of_slurm_node(const std::string& node);

// Returns this host's address on the route to `host`. Throws std::runtime_error if there is none.
std::string local_address_towards(const std::string& host);

}  // namespace fsdp
