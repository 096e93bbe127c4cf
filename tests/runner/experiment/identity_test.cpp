#include <catch2/catch.hpp>

#include "base/files/file_digest.h"
#include "base/text/config_error.h"
#include "contract/families/family.h"
#include "runner/experiment/experiment.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

RunSpec chess_spec(const TemporaryFolder& folder) {
  RunSpec spec;
  spec.data.train = folder.path() / "games.csv";
  spec.data.tokenizer = folder.path() / "tokenizer.model";
  return resolved(spec);
}

}  // namespace

TEST_CASE("a run's identity follows its specification and its files' bytes, not their place") {
  const TemporaryFolder here, there;
  for (const TemporaryFolder* folder : {&here, &there}) {
    folder->write("games.csv", "Moves,Termination,Result\n1. e4,CHECKMATE,1-0\n");
    folder->write("tokenizer.model", "tokenizer");
  }
  const RunSpec spec = chess_spec(here);
  const std::string hash = run_hash(spec, file_digest);
  CHECK(hash.size() == 32);
  CHECK(run_hash(spec, file_digest) == hash);
  CHECK(run_hash(chess_spec(there), file_digest) == hash);

  RunSpec other = spec;
  other.train.seed = 2;
  CHECK(run_hash(other, file_digest) != hash);

  there.write("games.csv", "Moves,Termination,Result\n1. d4,CHECKMATE,1-0\n");
  CHECK(run_hash(chess_spec(there), file_digest) != hash);
}

TEST_CASE("a run is the same run however it is carried out") {
  const FileDigest no_digest = [](const std::filesystem::path&) { return std::string(); };
  const RunSpec spec = resolved(RunSpec{});
  RunSpec other = spec;
  other.resume.is_auto = true;
  other.communication.timeout_s = 5;
  other.device_samples.every_s = 1;
  other.wandb.project = "class of 2026";
  other.slurm.nodes = 2;
  other.slurm.modules = {"cuda"};
  other.slurm.container.image = "image.sif";
  CHECK(run_hash(other, no_digest) == run_hash(spec, no_digest));
  other.schedule.warmup_steps = 1;
  CHECK(run_hash(other, no_digest) != run_hash(spec, no_digest));
}

TEST_CASE("a run that goes on from another checkpoint is another run, wherever checkpoints lie") {
  const TemporaryFolder folder;
  const auto resumed_from = [&](const std::string& name, const std::string& weights) {
    std::filesystem::create_directories(folder / name);
    folder.write(name + "/trainer.json", R"({"files": [{"name": "weights", "size_bytes": 1}]})");
    folder.write(name + "/weights", weights);
    RunSpec spec = resolved(RunSpec{});
    spec.resume.path = folder / name;
    return spec;
  };
  const RunSpec a = resumed_from("a", "1"), moved = resumed_from("b", "1"),
                other = resumed_from("c", "2");
  CHECK(run_hash(a, file_digest) == run_hash(moved, file_digest));
  CHECK(run_hash(a, file_digest) != run_hash(other, file_digest));
  CHECK(run_hash(a, file_digest) != run_hash(resolved(RunSpec{}), file_digest));
  CHECK(loss_digest(a, file_digest) == loss_digest(moved, file_digest));
  CHECK(loss_digest(a, file_digest) != loss_digest(other, file_digest));
  const std::string hash = run_hash(a, file_digest);
  folder.write("a/weights", "3");
  CHECK(run_hash(a, file_digest) != hash);
}

TEST_CASE("a run keeps the identity that earlier versions gave it") {
  const FileDigest no_digest = [](const std::filesystem::path&) { return std::string(); };
  RunSpec spec;
  spec.strategy.kind = StrategyKind::kFsdp;
  spec.strategy.ranks = 4;
  spec.optimizer.learning_rate = 1e-4;
  spec = resolved(spec);
  CHECK(identity_keys(spec) ==
        "strategy.kind=fsdp\nstrategy.ranks=4\nbatch.total=16\n"
        "batch.gradient_accumulation_steps=1\noptimizer.learning_rate=1e-04\ntrain.steps=100\n");
  CHECK(run_hash(spec, no_digest) == "191899778e938a9eaf8864e36baa31ab");
}

TEST_CASE("runs whose losses must be equal have one digest, and others have another") {
  const FileDigest no_digest = [](const std::filesystem::path&) { return std::string(); };
  const auto digest_after = [&](auto&& change) {
    RunSpec spec;
    spec.strategy.kind = StrategyKind::kDdp;
    spec.strategy.ranks = 4;
    change(spec);
    return loss_digest(resolved(spec), no_digest);
  };
  const std::string digest = digest_after([](RunSpec&) {});
  CHECK(digest.size() == 32);
  CHECK(digest == digest_after([](RunSpec& spec) { spec.strategy.kind = StrategyKind::kFsdp; }));
  CHECK(digest == digest_after([](RunSpec& spec) {
          spec.strategy = {};
          spec.batch.size_per_rank = 8;
          spec.batch.total = 16;
        }));
  CHECK(digest == digest_after([](RunSpec& spec) {
          spec.activation_checkpointing.every = 1;
          spec.checkpoint.every_steps = 5;
          spec.evaluation.every_steps = 5;
          spec.evaluation.data = "set";
          spec.optimizer.in_backward = true;
          spec.memory_limit_gib = 4;
          spec.threads_per_rank = 2;
          spec.environment = {"NCCL_ALGO=Ring"};
          spec.device = DeviceKind::kCpu;
          spec.train.warmup_steps_excluded = 7;
          spec.train.deterministic = true;
        }));
  CHECK(digest != digest_after([](RunSpec& spec) { spec.batch.size_per_rank = 8; }));
  CHECK(digest != digest_after([](RunSpec& spec) { spec.train.seed = 9; }));
  CHECK(digest != digest_after([](RunSpec& spec) { spec.train.steps = 9; }));
  CHECK(digest != digest_after([](RunSpec& spec) { spec.optimizer.learning_rate = 9; }));
  CHECK(digest != digest_after([](RunSpec& spec) { spec.evaluation.fraction = 0.5; }));
  CHECK(digest !=
        digest_after([](RunSpec& spec) { spec.precision.kind = PrecisionKind::kBf16Mixed; }));
}

TEST_CASE("with dropout, losses also follow from the size of micro-batches and the device") {
  const FileDigest no_digest = [](const std::filesystem::path&) { return std::string(); };
  const bool is_t5 = GENERATE(true, false);
  const auto digest = [&](double dropout, StrategyKind kind, int64_t size, DeviceKind device) {
    RunSpec spec;
    if (is_t5) {
      spec.model.config = find_preset("t5-small")->config;
      spec.model.config.dropout_rate = dropout;
    } else {
      spec.method = Method::kLora;
      spec.lora.dropout = dropout;
    }
    spec.strategy.kind = kind;
    spec.strategy.ranks = 2;
    spec.batch.size_per_rank = size;
    spec.batch.total = 16;
    spec.device = device;
    return loss_digest(resolved(spec), no_digest);
  };
  using enum StrategyKind;
  using enum DeviceKind;
  for (const double dropout : {0.0, 0.1}) {
    const std::string expected = digest(dropout, kDdp, 2, kCpu);
    CHECK(expected == digest(dropout, kFsdp, 2, kCpu));
    CHECK((expected == digest(dropout, kDdp, 4, kCpu)) == (dropout == 0));
    CHECK((expected == digest(dropout, kDdp, 2, kCuda)) == (dropout == 0));
  }
}

}  // namespace fsdp
