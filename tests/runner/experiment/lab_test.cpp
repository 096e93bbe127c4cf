#include <catch2/catch.hpp>

#include "runner/experiment/experiment.h"

namespace fsdp {
namespace {

const std::filesystem::path kLabFile = std::filesystem::path(FSDP_EXPERIMENTS_FOLDER) / "lab.yaml";

}  // namespace

TEST_CASE("the shipped lab has workflow A's five points on 4x A100") {
  const Expansion lab = Experiment::load(kLabFile).expand(
      {}, {.gpu_count = 4, .gpu_memory_gib = 79.2, .cpu_cores = 64});
  CHECK(lab.profile == "a100x4");
  REQUIRE(lab.runs.size() == 5);
  const std::vector<std::string> points = {"1 GPU", "4xDDP", "4xFSDP", "FSDP batch 8", "offload"};
  const std::vector<int64_t> ranks = {1, 4, 4, 4, 4};
  const std::vector<int64_t> totals = {4, 16, 16, 32, 16};
  const std::vector<int64_t> steps = {400, 100, 100, 50, 100};
  for (size_t i = 0; i < lab.runs.size(); ++i) {
    const RunSpec& spec = lab.runs[i].spec;
    INFO(points[i]);
    CHECK(lab.runs[i].point == points[i]);
    CHECK(spec.strategy.ranks == ranks[i]);
    CHECK(spec.batch.total == totals[i]);
    CHECK(spec.train.steps == steps[i]);
    CHECK(spec.batch.gradient_accumulation_steps == 1);
    CHECK(spec.device == DeviceKind::kCuda);
    CHECK(spec.precision.kind == PrecisionKind::kBf16True);
    CHECK(spec.model.config.hidden_size == 4096);
    CHECK(spec.data.sequence_length == 512);
  }
  CHECK(lab.runs[0].spec.strategy.kind == StrategyKind::kSingle);
  CHECK(lab.runs[1].spec.strategy.kind == StrategyKind::kDdp);
  CHECK(lab.runs[3].spec.strategy.kind == StrategyKind::kFsdp);
  CHECK(lab.runs[4].spec.strategy.offload == Offload::kOptimizer);
}

TEST_CASE("the shipped lab takes the model that the cards hold, and as many ranks as there are") {
  struct Host {
    int64_t gpus;
    double memory_gib;
    const char* profile;
    int64_t ranks, hidden_size;
  };
  for (const Host& host : {Host{8, 79.2, "a100x4", 4, 4096}, Host{4, 39.4, "gpux2", 2, 3200},
                           Host{2, 22.5, "gpux2", 2, 3200}, Host{1, 79.2, "80gb", 1, 4096},
                           Host{1, 44.5, "40gb", 1, 3200}, Host{1, 22.5, "24gb", 1, 2048}}) {
    CAPTURE(host.gpus, host.memory_gib);
    const Resources resources{
        .gpu_count = host.gpus, .gpu_memory_gib = host.memory_gib, .cpu_cores = 8};
    const Expansion lab = Experiment::load(kLabFile).expand({}, resources);
    CHECK(lab.profile == host.profile);
    REQUIRE(lab.runs.size() == 5);
    for (const Run& run : lab.runs) {
      CHECK(run.spec.strategy.ranks == (run.point == "1 GPU" ? 1 : host.ranks));
      CHECK(run.spec.model.config.hidden_size == host.hidden_size);
      CHECK(run.spec.device == DeviceKind::kCuda);
      CHECK(*run.spec.train.steps * *run.spec.batch.total == 1600);
    }
  }
}

TEST_CASE("a login node without GPUs submits the shipped lab for four of them") {
  const Expansion lab =
      Experiment::load(kLabFile).expand({.on_cluster = true}, {.gpu_count = 0, .cpu_cores = 2});
  CHECK(lab.profile == "a100x4");
  for (const Run& run : lab.runs) {
    CHECK(run.spec.device == DeviceKind::kCuda);
    CHECK(run.spec.slurm.gpus_per_node == 4);
    CHECK(run.spec.slurm.exclusive);
  }
}

TEST_CASE("the shipped lab has the same points on any machine") {
  const Expansion lab = Experiment::load(kLabFile).expand({}, {.gpu_count = 0, .cpu_cores = 2});
  CHECK(lab.profile == "cpu");
  CHECK(lab.profile_reason ==
        "cpu: a100x4 needs 4 GPUs, this host has 0; alpaca needs 4 GPUs, this host has 0; gpux2 "
        "needs 2 GPUs, this host has 0; 80gb needs 1 GPU, this host has 0; 40gb needs 1 GPU, this "
        "host has 0; 24gb needs 1 GPU, this host has 0");
  REQUIRE(lab.runs.size() == 5);
  for (const Run& run : lab.runs) {
    CHECK(run.spec.device == DeviceKind::kCpu);
    CHECK(run.spec.precision == PrecisionSpec{});
    CHECK(run.spec.model.config.vocab_size == 1024);
    CHECK(*run.spec.train.steps * *run.spec.batch.total ==
          *lab.runs[0].spec.train.steps * *lab.runs[0].spec.batch.total);
  }
}

}  // namespace fsdp
