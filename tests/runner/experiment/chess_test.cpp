#include <catch2/catch.hpp>

#include "tests/runner/experiment/expanded_experiment.h"

namespace fsdp {
namespace {

const std::filesystem::path kChess = std::filesystem::path(FSDP_EXPERIMENTS_FOLDER) / "chess.yaml";

const Names kPoints = {"1 GPU", "DDP", "FSDP", "FSDP, doubled size_per_rank=1",
                       "FSDP, checkpointing, doubled size_per_rank=1"};

Expansion chess(const ExpandOptions& options, const Resources& host = kNoGpus) {
  return Experiment::load(kChess).expand(options, host);
}

// Checks the common settings of all runs on GPUs: CodeLlama-7b, and the published script's request.
void check_published(const RunSpec& spec, int64_t gpus) {
  const ModelConfig& config = spec.model.config;
  CHECK(config.num_hidden_layers == 32);
  CHECK(config.hidden_size == 4096);
  CHECK(config.intermediate_size == 11008);
  CHECK(config.num_attention_heads == 32);
  CHECK(config.num_key_value_heads == 32);
  CHECK(config.vocab_size == 32016);
  CHECK(config.max_position_embeddings == 16384);
  CHECK(config.rope_theta == 1e6);
  CHECK(config.rms_norm_eps == 1e-5);
  CHECK(spec.precision.kind == PrecisionKind::kBf16Mixed);
  CHECK(spec.device == DeviceKind::kCuda);
  CHECK(spec.threads_per_rank == 10);
  CHECK(spec.device_samples.every_s == 2);
  SlurmSpec request;
  request.job_name = "chess";
  request.output = "%x-%j.out";
  request.error = "%x-%j.err";
  request.gpus_per_node = gpus;
  request.cpus_per_task = 10;
  request.time = "04:00:00";
  CHECK(spec.slurm == request);
}

}  // namespace

TEST_CASE("the shipped chess experiment asks the tutorial's questions on four GPUs of 80 GB") {
  const Resources host{.gpu_count = 4, .gpu_memory_gib = 79.2, .cpu_cores = 64};
  for (const Expansion& expansion : {chess({}, host), chess({.on_cluster = true})}) {
    CHECK(expansion.profile == "80gbx4");
    REQUIRE(names(expansion) == kPoints);
    const std::vector<int64_t> ranks = {1, 4, 4, 4, 4};
    const std::vector<int64_t> sizes = {1, 4, 4, 1, 1};
    const std::vector<int64_t> accumulation = {256, 16, 16, 64, 64};
    for (size_t i = 0; i < kPoints.size(); ++i) {
      INFO(kPoints[i]);
      const RunSpec& spec = expansion.runs[i].spec;
      check_published(spec, 4);
      CHECK(spec.strategy.ranks == ranks[i]);
      CHECK(spec.batch.size_per_rank == sizes[i]);
      CHECK(spec.batch.total == 256);
      CHECK(spec.batch.gradient_accumulation_steps == accumulation[i]);
      CHECK(spec.activation_checkpointing.every == (i == 4 ? 1 : 0));
      CHECK((expansion.runs[i].doubling != nullptr) == (i >= 3));
    }
    CHECK(expansion.runs[0].spec.strategy.kind == StrategyKind::kSingle);
    CHECK(expansion.runs[1].spec.strategy.kind == StrategyKind::kDdp);
    CHECK(expansion.runs[2].spec.strategy.kind == StrategyKind::kFsdp);
  }
}

TEST_CASE("the shipped chess experiment has the second version's settings on two GPUs") {
  const Expansion first = chess({.profile = "gpux2", .on_cluster = true});
  REQUIRE(names(first) == kPoints);
  for (const Run& run : first.runs) {
    INFO(run.point);
    check_published(run.spec, 2);
    CHECK(run.spec.batch.total == 8);
  }
  CHECK(first.runs[2].spec.batch.size_per_rank == 4);
  CHECK(first.runs[2].spec.batch.gradient_accumulation_steps == 1);

  const Expansion second = chess({.profile = "gpux2",
                                  .set = {"batch.total=16", "batch.size_per_rank=8"},
                                  .only = {"FSDP"},
                                  .on_cluster = true});
  REQUIRE(second.runs.size() == 1);
  CHECK(second.runs[0].spec.batch.total == 16);
  CHECK(second.runs[0].spec.batch.size_per_rank == 8);
  CHECK(second.runs[0].spec.batch.gradient_accumulation_steps == 1);

  CHECK(chess({}, {.gpu_count = 2, .gpu_memory_gib = 79.2}).profile == "gpux2");
}

TEST_CASE("the shipped chess experiment has the same points on any machine, and on its cluster") {
  for (const bool on_cluster : {false, true}) {
    const Expansion expansion = chess({.profile = "cpu", .on_cluster = on_cluster});
    REQUIRE(names(expansion) == kPoints);
    for (const Run& run : expansion.runs) {
      CHECK(run.spec.device == DeviceKind::kCpu);
      CHECK(run.spec.slurm.gpus_per_node == 0);
      CHECK(run.spec.threads_per_rank == 1);
      CHECK(run.spec.batch.total == 64);
    }
  }
  CHECK(chess({}).profile == "cpu");
}

}  // namespace fsdp
