// Reads a rank's place from the variables of torchrun, mpirun or srun. Refuses contradictions.
#include "trainer/comm/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "trainer/comm/host_address.h"

namespace fsdp {
namespace {

[[noreturn]] void fail(const std::string& name, const std::string& problem) {
  throw ConfigError("environment", name, problem);
}

// Returns a variable's value for a message.
std::string quoted(const std::string& value) {
  constexpr size_t kMostShown = 200;
  return "'" + visible_line(shortened(value, kMostShown)) + "'";
}

std::optional<int> to_integer(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class Variables {
 public:
  explicit Variables(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  // Treats an empty value as not set.
  std::optional<std::string> text(const std::string& name) const {
    std::optional<std::string> value = lookup_(name);
    if (value && value->empty()) return std::nullopt;
    return value;
  }

  bool has(const std::string& name) const { return text(name).has_value(); }

  std::optional<int> integer(const std::string& name, int minimum, int maximum) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    const std::optional<int> number = to_integer(*value);
    if (!number || *number < minimum || *number > maximum) {
      fail(name, quoted(*value) + " is not an integer from " + std::to_string(minimum) + " to " +
                     std::to_string(maximum));
    }
    return *number;
  }

  int required(const std::string& name, int minimum, int maximum,
               const std::string& because) const {
    const std::optional<int> value = integer(name, minimum, maximum);
    if (!value) fail(name, "is not set although " + because + " is; set both or neither");
    return *value;
  }

 private:
  const EnvironmentLookup& lookup_;
};

constexpr int kLargestWorld = 1 << 20;
constexpr int kLargestPort = 65535;

// The names under which a launcher publishes the same four numbers.
struct Names {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

constexpr Names kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr const char* kSlurmRank = "SLURM_PROCID";
constexpr const char* kSlurmSize = "SLURM_NTASKS";

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

// Reads rank, world size and local rank; leaves `local_world_size` to the caller.
WorldEnvironment read_ranks(const Variables& variables, const Names& names) {
  WorldEnvironment world;
  world.world_size = variables.required(names.world_size, 1, kLargestWorld, names.rank);
  world.rank = variables.required(names.rank, 0, world.world_size - 1, names.world_size);
  world.local_rank = variables.required(names.local_rank, 0, world.world_size - 1, names.rank);
  return world;
}

std::optional<int> read_local_world_size(const Variables& variables, const char* name,
                                         const WorldEnvironment& world) {
  return variables.integer(name, world.local_rank + 1, world.world_size);
}

void read_master(const Variables& variables, WorldEnvironment& world) {
  if (const auto address = variables.text("MASTER_ADDR")) {
    if (holds_control_characters(*address)) {
      fail("MASTER_ADDR", quoted(*address) +
                              " holds a control character; allowed: a host's name or "
                              "address");
    }
    world.master_address = *address;
  }
  if (const auto port = variables.integer("MASTER_PORT", 1, kLargestPort)) {
    world.master_port = *port;
  }
}

WorldEnvironment from_torchrun(const Variables& variables) {
  WorldEnvironment world = read_ranks(variables, kTorchrun);
  if (world.world_size > 1) {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
      if (!variables.has(name)) {
        fail(name, "is not set although WORLD_SIZE is above 1; it says where rank 0 listens");
      }
    }
  }
  read_master(variables, world);
  const auto local = read_local_world_size(variables, kTorchrun.local_world_size, world);
  if (!local && !is_loopback(world.master_address)) {
    fail(kTorchrun.local_world_size,
         "is not set although MASTER_ADDR is another host; set it to the number of ranks on each "
         "host");
  }
  world.local_world_size = local.value_or(world.world_size);
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    world.store_prefix =
        "worker/attempt_" + variables.text("TORCHELASTIC_RESTART_COUNT").value_or("0");
  }
  return world;
}

WorldEnvironment from_mpi(const Variables& variables, const Names& names) {
  WorldEnvironment world = read_ranks(variables, names);
  world.local_world_size =
      read_local_world_size(variables, names.local_world_size, world).value_or(world.world_size);
  if (!world.single_host() && !variables.has("MASTER_ADDR")) {
    fail("MASTER_ADDR",
         "is not set although the ranks are on more than one host; export the host " +
             std::string("of rank 0 to all of them"));
  }
  read_master(variables, world);
  return world;
}

// Returns the first host of Slurm's notation: n1 of "n1,n2", n01 of "n[01-03,07]", a1-b2 of
// "a[1-2]-b[2,3]".
std::string first_host(const std::string& variable, const std::string& hosts) {
  std::string host;
  for (size_t i = 0; i < hosts.size() && hosts[i] != ','; ++i) {
    if (hosts[i] != '[') {
      host += hosts[i];
      continue;
    }
    const size_t end = hosts.find(']', i);
    const size_t first_end = hosts.find_first_of(",-]", i);
    if (end == std::string::npos || first_end == i + 1) {
      fail(variable, quoted(hosts) + " is not a list of hosts such as n[01-03,07]");
    }
    host += hosts.substr(i + 1, first_end - i - 1);
    i = end;
  }
  if (host.empty()) fail(variable, quoted(hosts) + " names no host");
  return host;
}

// Returns the entry for `node` of Slurm's notation: "2(x3),1" means 2, 2, 2, 1.
int tasks_of_node(const std::string& variable, const std::string& tasks, int node) {
  std::string_view rest = tasks;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view entry = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    int repeat = 1;
    if (const size_t open = entry.find("(x"); open != std::string_view::npos) {
      const std::string_view count = entry.substr(open + 2);
      const auto number =
          count.ends_with(')') ? to_integer(count.substr(0, count.size() - 1)) : std::nullopt;
      if (!number || *number < 1) break;
      repeat = *number;
      entry = entry.substr(0, open);
    }
    const std::optional<int> count = to_integer(entry);
    if (!count || *count < 1) break;
    if (node < repeat) return *count;
    node -= repeat;
  }
  fail(variable, quoted(tasks) + " is not a list such as 2(x3),1 with an entry for this node");
}

// Returns the node of the step's rank 0.
std::string first_node(const Variables& variables) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (const auto hosts = variables.text(name)) return first_host(name, *hosts);
  }
  fail("SLURM_STEP_NODELIST", "is not set although the ranks are on more than one host");
}

int slurm_local_world_size(const Variables& variables, const WorldEnvironment& world) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    if (const auto tasks = variables.text(name)) {
      const int node = variables.integer("SLURM_NODEID", 0, kLargestWorld).value_or(0);
      const int count = tasks_of_node(name, *tasks, node);
      if (count <= world.local_rank || count > world.world_size) {
        fail(name, quoted(*tasks) + " gives this node " + std::to_string(count) +
                       " tasks, which does not fit SLURM_LOCALID " +
                       std::to_string(world.local_rank) + " and SLURM_NTASKS " +
                       std::to_string(world.world_size));
      }
      return count;
    }
  }
  return read_local_world_size(variables, "SLURM_NTASKS_PER_NODE", world)
      .value_or(world.world_size);
}

// Chooses the ports at which the ranks of this step meet, unless MASTER_PORT is set.
void choose_ports(const Variables& variables, WorldEnvironment& world) {
  constexpr int kFirstPort = 20000;  // below Linux's ports for outgoing connections
  constexpr int kPorts = 10000;
  constexpr int kPortsTried = 4;
  constexpr int kNextPort = 2503;
  // Jobs that share a node have nearby ids, and steps of one job have nearby numbers. The factor
  // keeps their ports apart.
  constexpr int64_t kStepsApart = 101;
  const auto job = variables.integer("SLURM_JOB_ID", 0, std::numeric_limits<int>::max());
  if (!job || variables.has("MASTER_PORT")) return;
  // Batch scripts and the like are no steps of srun. Their variable is not a number.
  const int step = to_integer(variables.text("SLURM_STEP_ID").value_or("")).value_or(0);
  const auto port = [&](int which) {
    return kFirstPort + static_cast<int>((*job * kStepsApart + step + which * kNextPort) % kPorts);
  };
  world.master_port = port(0);
  for (int next = 1; next < kPortsTried; ++next) world.next_ports.push_back(port(next));
  world.start_name = variables.text("SLURM_CLUSTER_NAME").value_or("") + "/" +
                     std::to_string(*job) + "." + std::to_string(step);
}

WorldEnvironment from_srun(const Variables& variables, const NodeAddress& address_of_node) {
  WorldEnvironment world =
      read_ranks(variables, {kSlurmRank, kSlurmSize, "SLURM_LOCALID", nullptr});
  world.local_world_size = slurm_local_world_size(variables, world);
  choose_ports(variables, world);
  if (!world.single_host() && !variables.has("MASTER_ADDR")) {
    world.master_address = address_of_node(first_node(variables));
  }
  read_master(variables, world);
  return world;
}

}  // namespace

WorldEnvironment read_world_environment(const EnvironmentLookup& lookup,
                                        const NodeAddress& address_of_node) {
  const Variables variables(lookup);
  const auto any_of = [&](const Names& names) {
    return variables.has(names.rank) || variables.has(names.world_size);
  };
  if (any_of(kTorchrun)) return from_torchrun(variables);
  if (any_of(kOpenMpi)) return from_mpi(variables, kOpenMpi);
  // srun also provides PMI, but without a local rank.
  if (variables.has(kPmi.local_rank)) return from_mpi(variables, kPmi);
  if (variables.has(kSlurmRank)) return from_srun(variables, address_of_node);
  if (any_of(kPmi)) return from_mpi(variables, kPmi);
  return {};
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

WorldEnvironment read_world_environment() {
  return read_world_environment(environment_variable, address_of_slurm_node);
}

int threads_per_rank(const RunSpec& spec, const WorldEnvironment& world, int cores,
                     const EnvironmentLookup& lookup) {
  if (spec.threads_per_rank) return static_cast<int>(*spec.threads_per_rank);
  if (const auto text = lookup("OMP_NUM_THREADS"); text && !text->empty()) {
    // A list has one number per nesting level; the first applies here.
    const std::string first = text->substr(0, text->find(','));
    int threads = 0;
    const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
    const Range range = from_to(1, kMostThreads);
    if (error != std::errc() || end != first.data() + first.size() || !range.contains(threads)) {
      throw ConfigError("environment", "OMP_NUM_THREADS",
                        "'" + *text + "' is not an integer " + range.description());
    }
    return threads;
  }
  return std::max(1, cores / world.local_world_size);
}

}  // namespace fsdp
