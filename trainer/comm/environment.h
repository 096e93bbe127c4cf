#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"

// Which process of how many this one is, from the environment its launcher set.
namespace fsdp {

struct WorldEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;                        // among the ranks of this host
  int local_world_size = 1;                  // ranks of this host
  std::string master_address = "127.0.0.1";  // where rank 0 listens
  int master_port = 29500;
  // Not empty: the launcher serves the store itself, and this start's keys go under the prefix.
  std::string store_prefix{};
  // Not empty: nobody chose master_port, so another program may have it, and rank 0 goes on to the
  // first of these that is free; this name tells the others that it is their own rank 0.
  std::string start_name{};
  std::vector<int> next_ports{};

  bool single_host() const { return local_world_size == world_size; }
  bool operator==(const WorldEnvironment&) const = default;
};

// The value of an environment variable; nullopt when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Looks in this process's environment.
std::optional<std::string> environment_variable(const std::string& name);

// Where the others reach a node that Slurm knows by this name.
using NodeAddress = std::function<std::string(const std::string& node)>;

// Reads the variables of the innermost launcher: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, ...), else
// Open MPI's mpirun, else MPICH's or Intel's mpiexec, else srun, else a single process. (mpirun
// inside a Slurm job sees Slurm's variables too, and they describe its daemons, not its ranks.)
// MASTER_ADDR and MASTER_PORT outrank what follows from other variables.
// Throws ConfigError that names the variable when one is missing or malformed.
// With srun, ranks on one node meet at the loopback address, those on several at the address of the
// step's first node.
WorldEnvironment read_world_environment(const EnvironmentLookup& lookup,
                                        const NodeAddress& address_of_node);

// From this process's environment; asks for addresses of nodes as `address_of_slurm_node` does.
WorldEnvironment read_world_environment();

// threads_per_rank, else OMP_NUM_THREADS, else `cores` / ranks of this host, at least 1.
// Throws ConfigError when OMP_NUM_THREADS is not a number.
int threads_per_rank(const RunSpec& spec, const WorldEnvironment& world, int cores,
                     const EnvironmentLookup& lookup);

}  // namespace fsdp
