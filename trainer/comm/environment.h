#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"

// The place of this process among the ranks, from the environment that its launcher set.
namespace fsdp {

struct WorldEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;                        // among the ranks of this host
  int local_world_size = 1;                  // ranks of this host
  std::string master_address = "127.0.0.1";  // the address where rank 0 listens
  int master_port = 29500;
  // Set if the launcher serves the store. This start's keys then have the prefix.
  std::string store_prefix{};
  // Set if nobody chose master_port, so another program may use the port. Rank 0 then listens at
  // the first free port of master_port and `next_ports`. The other ranks recognize rank 0 of their
  // start by this name.
  std::string start_name{};
  std::vector<int> next_ports{};

  bool single_host() const { return local_world_size == world_size; }
  bool operator==(const WorldEnvironment&) const = default;
};

// Returns the value of an environment variable; nullopt if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Looks in this process's environment.
std::optional<std::string> environment_variable(const std::string& name);

// Returns the address at which other nodes reach a node that Slurm knows by this name.
using NodeAddress = std::function<std::string(const std::string& node)>;

// Reads the variables of the innermost launcher: torchrun (RANK, WORLD_SIZE, ...), else Open MPI's
// mpirun, else MPICH's or Intel's mpiexec, else srun. Without a launcher, there is a single
// process. Ranks of mpirun in a Slurm job also see Slurm's variables, which describe mpirun's
// daemons. MASTER_ADDR and MASTER_PORT take precedence over values derived from other variables.
// Throws ConfigError that names a missing or malformed variable. With srun, ranks on one node meet
// at the loopback address. Ranks on several nodes meet at the address of the step's first node.
WorldEnvironment read_world_environment(const EnvironmentLookup& lookup,
                                        const NodeAddress& address_of_node);

// Does the same with this process's environment and `address_of_slurm_node`.
WorldEnvironment read_world_environment();

// Returns threads_per_rank, else OMP_NUM_THREADS, else `cores` / ranks of this host, at least 1.
// Throws ConfigError if OMP_NUM_THREADS is not a number in the allowed range.
int threads_per_rank(const RunSpec& spec, const WorldEnvironment& world, int cores,
                     const EnvironmentLookup& lookup);

}  // namespace fsdp
