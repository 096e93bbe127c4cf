#include "runner/cluster/request.h"

#include <catch2/catch.hpp>

#include "base/text/config_error.h"

namespace fsdp {
namespace {

RunSpec run_of(DeviceKind device, int64_t ranks, int64_t nodes, int64_t gpus_per_node) {
  RunSpec spec;
  spec.device = device;
  spec.strategy.ranks = ranks;
  spec.slurm.nodes = nodes;
  spec.slurm.gpus_per_node = gpus_per_node;
  return spec;
}

std::string refusal_of(const RunSpec& spec) {
  try {
    slurm_request(spec);
  } catch (const ConfigError& error) {
    return error.key() + ": " + error.problem();
  }
  return "accepted";
}

TEST_CASE("A run on GPUs asks for as few nodes as hold its ranks") {
  for (const auto& [ranks, nodes, gpus, expected] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, SlurmRequest>>{{1, 1, 4, {1, 1, 1}},
                                                                        {4, 1, 4, {1, 4, 4}},
                                                                        {4, 3, 2, {2, 2, 2}},
                                                                        {6, 2, 5, {2, 3, 3}},
                                                                        {8, 2, 4, {2, 4, 4}}}) {
    CHECK(slurm_request(run_of(DeviceKind::kCuda, ranks, nodes, gpus)) == expected);
  }
  CHECK(slurm_request(run_of(DeviceKind::kAuto, 2, 1, 2)).gpus_per_node == 2);
  CHECK(slurm_request(run_of(DeviceKind::kAuto, 2, 1, 0)).gpus_per_node == 0);
}

TEST_CASE("A run on the CPU spreads over the nodes it may use") {
  const auto request = [](int64_t ranks, int64_t nodes) {
    return slurm_request(run_of(DeviceKind::kCpu, ranks, nodes, 4));
  };
  CHECK(request(4, 1) == SlurmRequest{.nodes = 1, .ranks_per_node = 4, .gpus_per_node = 0});
  CHECK(request(1, 2) == SlurmRequest{.nodes = 1, .ranks_per_node = 1, .gpus_per_node = 0});
  for (const int64_t nodes : {2, 3}) {
    CHECK(request(4, nodes) == SlurmRequest{.nodes = 2, .ranks_per_node = 2, .gpus_per_node = 0});
  }
}

TEST_CASE("What does not fit is refused with what to set") {
  CHECK(refusal_of(run_of(DeviceKind::kCuda, 2, 1, 0)) ==
        "slurm.gpus_per_node: is 0, but the run is on GPUs (2 ranks); set the GPUs of a node of "
        "the cluster, or device: cpu");
  CHECK(refusal_of(run_of(DeviceKind::kCuda, 8, 1, 4)) ==
        "slurm.nodes: 8 ranks on nodes of 4 GPUs need 2 nodes, and slurm.nodes allows 1; raise it, "
        "or lower strategy.ranks to 4");
  CHECK(refusal_of(run_of(DeviceKind::kCuda, 7, 2, 4)) ==
        "slurm.gpus_per_node: 7 ranks do not spread evenly over 2 nodes of 4 GPUs; make "
        "strategy.ranks a multiple of 4, or set slurm.gpus_per_node to a number that divides the "
        "ranks");
  CHECK(refusal_of(run_of(DeviceKind::kCpu, 3, 2, 0)) ==
        "slurm.nodes: 3 ranks do not spread evenly over 2 nodes; allowed: 1");
}

TEST_CASE("The largest request has room for each") {
  CHECK(largest({{.nodes = 1, .ranks_per_node = 4, .gpus_per_node = 4},
                 {.nodes = 2, .ranks_per_node = 2, .gpus_per_node = 2}}) ==
        SlurmRequest{.nodes = 2, .ranks_per_node = 4, .gpus_per_node = 4});
}

TEST_CASE("What runs hold at most follows from their requests and slurm.time") {
  RunSpec run = run_of(DeviceKind::kCuda, 8, 2, 4);
  CHECK(most_held_text({}) == "");
  CHECK(most_held_text({run}).find("partition") != std::string::npos);
  run.slurm.time = "1:30:00";
  RunSpec small = run;
  small.strategy.ranks = 1;
  CHECK(most_held_text({run, run, small}) ==
        "at most 25.5 GPU-hours and 7.5 node-hours, by slurm.time");
  for (RunSpec* each : {&run, &small}) each->slurm.exclusive = true;
  CHECK(most_held_text({small}) == "at most 6 GPU-hours and 1.5 node-hours, by slurm.time");
  for (RunSpec* each : {&run, &small}) each->slurm.mode = SlurmMode::kAllocation;
  CHECK(most_held_text({small, run, run}) ==
        "at most 12 GPU-hours and 3 node-hours, by slurm.time");
  RunSpec on_cpus = run_of(DeviceKind::kCpu, 2, 1, 0);
  on_cpus.slurm.time = "30";
  CHECK(most_held_text({on_cpus}) == "at most 0.5 node-hours, by slurm.time");
}

TEST_CASE("Runs share an array when they ask the same of Slurm") {
  const RunSpec run = run_of(DeviceKind::kCuda, 4, 1, 4);
  RunSpec other = run;
  other.batch.size_per_rank = 8;
  CHECK(may_share_array(run, other));
  other.slurm.time = "1:00:00";
  CHECK_FALSE(may_share_array(run, other));
  other = run;
  other.strategy.ranks = 2;
  CHECK_FALSE(may_share_array(run, other));
  other = run;
  other.checkpoint.every_steps = 10;
  CHECK_FALSE(may_share_array(run, other));
}

}  // namespace
}  // namespace fsdp
