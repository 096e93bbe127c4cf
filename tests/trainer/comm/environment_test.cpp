#include "trainer/comm/environment.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "base/text/config_error.h"
#include "base/text/utf8.h"

namespace fsdp::environment_test {

using Variables = std::map<std::string, std::string>;

WorldEnvironment read(const Variables& variables) {
  return fsdp::read_world_environment(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      [](const std::string& node) { return "address of " + node; });
}

// Returns the error of these variables; without a key if there is none.
ConfigError error_of(const Variables& variables) {
  try {
    read(variables);
  } catch (const ConfigError& error) {
    return error;
  }
  return ConfigError("", "", "");
}

std::string blamed(const Variables& variables) { return error_of(variables).key(); }

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun{{"RANK", "5"},         {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},   {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "1234"}};
const Variables kSrun{{"SLURM_PROCID", "6"},
                      {"SLURM_NTASKS", "7"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "3"},
                      {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                      {"SLURM_JOB_NODELIST", "n[01-03,07]"},
                      {"SLURM_JOB_ID", "1230042"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kMpich{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

TEST_CASE("torchrun's agent serves the store, anew at each restart") {
  CHECK(read(kTorchrun).store_prefix.empty());
  const Variables served = with(
      kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}});
  CHECK(read(served).store_prefix == "worker/attempt_2");
  CHECK(read(with(served, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).store_prefix.empty());
}

TEST_CASE("without a launcher there is one process") {
  CHECK(read({}) == WorldEnvironment{});
  CHECK(read({{"MASTER_ADDR", "n1"}, {"SLURM_JOB_ID", "7"}}).world_size == 1);
}

TEST_CASE("torchrun's variables") {
  CHECK(read(kTorchrun) == WorldEnvironment{5, 8, 1, 4, "n1", 1234});
  // On one host LOCAL_WORLD_SIZE follows from WORLD_SIZE.
  const Variables local =
      with(without(kTorchrun, "LOCAL_WORLD_SIZE"), {{"MASTER_ADDR", "127.0.0.1"}});
  CHECK(read(local).local_world_size == 8);
  CHECK(blamed(without(kTorchrun, "LOCAL_WORLD_SIZE")) == "LOCAL_WORLD_SIZE");
  // One rank needs no master.
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}) == WorldEnvironment{});
}

TEST_CASE("torchrun's variables, half set or malformed") {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    CHECK(blamed(without(kTorchrun, name)) == name);
  }
  CHECK(blamed(with(kTorchrun, {{"RANK", "8"}})) == "RANK");
  CHECK(blamed(with(kTorchrun, {{"RANK", "-1"}})) == "RANK");
  CHECK(blamed(with(kTorchrun, {{"WORLD_SIZE", "8x"}})) == "WORLD_SIZE");
  CHECK(blamed(with(kTorchrun, {{"WORLD_SIZE", "0"}})) == "WORLD_SIZE");
  CHECK(blamed(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "1"}})) == "LOCAL_WORLD_SIZE");
  CHECK(blamed(with(kTorchrun, {{"MASTER_PORT", "70000"}})) == "MASTER_PORT");
}

TEST_CASE("srun's variables") {
  CHECK(read(kSrun) ==
        WorldEnvironment{
            6, 7, 0, 1, "address of n01", 24242, "", "/1230042.0", {26745, 29248, 21751}});
  CHECK(read(with(kSrun, {{"SLURM_CLUSTER_NAME", "alps"}})).start_name == "alps/1230042.0");
  CHECK(read(with(kSrun, {{"SLURM_PROCID", "4"}, {"SLURM_NODEID", "2"}})).local_world_size == 2);
  // The step's hosts outrank the job's; the user's own master outranks both.
  CHECK(read(with(kSrun, {{"SLURM_STEP_NODELIST", "n02"}})).master_address == "address of n02");
  const Variables own = with(kSrun, {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "99"}});
  CHECK(read(own).master_address == "head");
  CHECK(read(own).master_port == 99);
  CHECK(read(own).start_name.empty());
  CHECK(read(own).next_ports.empty());
}

TEST_CASE("ranks of srun on one node need no name of it") {
  const Variables one_node{{"SLURM_PROCID", "1"},
                           {"SLURM_NTASKS", "2"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2"},
                           {"SLURM_JOB_NODELIST", "n[1-3]"},
                           {"SLURM_STEP_NODELIST", "n2"}};
  CHECK(read(one_node).master_address == "127.0.0.1");
  CHECK(read(with(one_node, {{"MASTER_ADDR", "head"}})).master_address == "head");
}

TEST_CASE("jobs on one node, and steps of one job, meet at ports of their own") {
  const auto port = [](const std::string& job, const std::string& step) {
    return read(with(kSrun, {{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}})).master_port;
  };
  CHECK(port("1230042", "0") == 24242);
  std::set<int> ports;
  for (int job = 1000; job < 1050; ++job) {
    for (int step = 0; step < 100; ++step) {
      ports.insert(port(std::to_string(job), std::to_string(step)));
    }
  }
  CHECK(ports.size() == 50 * 100);
  CHECK(port("1230042", "4294967290") == 24242);  // the step of an interactive shell
}

TEST_CASE("Slurm's notation for hosts") {
  const auto first = [](const std::string& hosts) {
    return read(with(kSrun, {{"SLURM_JOB_NODELIST", hosts}})).master_address.substr(11);
  };
  CHECK(first("gpu-3") == "gpu-3");
  CHECK(first("a,b[1-2]") == "a");
  CHECK(first("n[007,009-011]") == "n007");
  CHECK(first("rack[1-2]-n[03-04].site") == "rack1-n03.site");
  for (const char* hosts : {"n[01", "n[]", ",a"}) {
    CHECK(blamed(with(kSrun, {{"SLURM_JOB_NODELIST", hosts}})) == "SLURM_JOB_NODELIST");
  }
}

TEST_CASE("srun's variables, half set or malformed") {
  CHECK(blamed(without(kSrun, "SLURM_NTASKS")) == "SLURM_NTASKS");
  CHECK(blamed(without(kSrun, "SLURM_LOCALID")) == "SLURM_LOCALID");
  CHECK(blamed(without(kSrun, "SLURM_JOB_NODELIST")) == "SLURM_STEP_NODELIST");
  for (const char* tasks : {"2(x3)", "2(y3),1", "two", "2(x3),9", "2(x0),1"}) {
    CHECK(blamed(with(kSrun, {{"SLURM_TASKS_PER_NODE", tasks}})) == "SLURM_TASKS_PER_NODE");
  }
}

TEST_CASE("mpirun's variables") {
  CHECK(read(kOpenMpi) == WorldEnvironment{3, 4, 3, 4, "127.0.0.1", 29500});
  CHECK(read(kMpich) == WorldEnvironment{1, 2, 1, 2, "127.0.0.1", 29500});
  CHECK(blamed(without(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_RANK")) == "OMPI_COMM_WORLD_LOCAL_RANK");
  const Variables two_hosts =
      with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK(blamed(two_hosts) == "MASTER_ADDR");
  CHECK(read(with(two_hosts, {{"MASTER_ADDR", "n1"}})).master_address == "n1");
}

TEST_CASE("the innermost launcher counts") {
  // mpirun inside a Slurm job: SLURM_PROCID is the rank of the daemon that started the ranks.
  const Variables in_job = with(kSrun, {{"SLURM_PROCID", "0"}});
  CHECK(read(with(in_job, kOpenMpi)).rank == 3);
  CHECK(read(with(in_job, kMpich)).rank == 1);
  // srun's own PMI has no local rank.
  CHECK(read(with(kSrun, {{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}})).local_world_size == 1);
  CHECK(read(with(with(in_job, kOpenMpi), kTorchrun)).rank == 5);
}

TEST_CASE("a variable's value cannot move the cursor") {
  const auto said = [](const Variables& variables) {
    return std::string(error_of(variables).what());
  };
  const std::string odd = "1\x1b[2J\n";
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "MASTER_ADDR"}) {
    const std::string message = said(with(kTorchrun, {{name, odd}}));
    CHECK_THAT(message, Catch::Contains(name) && Catch::Contains("1\\x1b[2J\\n"));
    CHECK_FALSE(fsdp::holds_control_characters(message));
  }
  CHECK(said(with(kTorchrun, {{"RANK", std::string(100'000, '9')}})).size() < 500);
  const Variables srun{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}};
  CHECK_FALSE(fsdp::holds_control_characters(said(with(srun, {{"SLURM_TASKS_PER_NODE", odd}}))));
}

}  // namespace fsdp::environment_test
