// The order in which a GPU would see the work of every strategy, proved without a GPU: each
// strategy's real schedule runs over streams that record who has waited for whom.
#include <catch2/catch.hpp>

#include "tests/trainer/strategy/recording_streams.h"
#include "trainer/engine/engine.h"
#include "trainer/model/llama.h"
#include "trainer/strategy/make_strategy.h"

namespace fsdp {
namespace {

constexpr int kBlocks = 4;
constexpr int kUnits = kBlocks + 2;

// Two equal ranks seen by one of them: every rank has the same shard and the same gradient.
class MirrorGroup : public ProcessGroup {
 public:
  MirrorGroup() : ProcessGroup(0, 2) {}
  Pending all_gather(at::Tensor output, at::Tensor shard) override {
    output.copy_(at::cat({shard, shard}));
    return {};
  }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input) override {
    shard.copy_(input.narrow(0, 0, shard.numel())).mul_(2);
    return {};
  }
  Pending all_reduce(at::Tensor tensor) override {
    tensor.mul_(2);
    return {};
  }
  void barrier() override {}
  std::string agree(const std::string&, const std::string& value) override { return value; }
};

struct Case {
  StrategySpec strategy;
  int64_t accumulation = 1;
  int64_t checkpoint_every = 0;
  bool is_tied = false;
};

ModelConfig small_model(bool is_tied) {
  return {.num_hidden_layers = kBlocks,
          .hidden_size = 16,
          .intermediate_size = 24,
          .num_attention_heads = 2,
          .num_key_value_heads = 2,
          .vocab_size = 31,
          .tie_word_embeddings = is_tied,
          .max_position_embeddings = 16};
}

// Three optimizer steps of `c` on `streams`.
void train(const Case& c, Streams& streams) {
  MirrorGroup group;
  const Model model = make_llama(small_model(c.is_tied));
  ShardStore store(model, shard_store_options(c.strategy, group, at::kFloat), streams,
                   [](const Parameter&, int64_t, const at::Tensor& out) { out.fill_(0.01); });
  const auto strategy = make_strategy(c.strategy, store, streams, group);
  Engine engine(model, *strategy, streams, c.checkpoint_every);
  const at::Tensor tokens = at::randint(31, {2, 9}, at::kLong);
  const Batch batch{.input_ids_BT = tokens.narrow(1, 0, 8).contiguous(),
                    .labels_BT = tokens.narrow(1, 1, 8).contiguous(),
                    .loss_scale = 1.0 / 32};
  const std::vector<Batch> micro_batches(c.accumulation, batch);
  for (int step = 0; step < 3; ++step) {
    engine.forward_backward(micro_batches, [] {});
    store.step([](int, const at::Tensor& parameters, const at::Tensor& gradient) {
      parameters.sub_(gradient, 0.1);
    });
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const StrategyKind kind : {StrategyKind::kSingle, StrategyKind::kDdp, StrategyKind::kFsdp}) {
    for (const Offload offload : {Offload::kNone, Offload::kOptimizer}) {
      for (const Accumulate accumulate : {Accumulate::kSharded, Accumulate::kUnsharded}) {
        for (const int64_t accumulation : {1, 2, 3}) {
          for (const int64_t every : {0, 1, 2}) {
            for (const bool is_tied : {false, true}) {
              cases.push_back({.strategy = {.kind = kind,
                                            .ranks = 2,
                                            .offload = offload,
                                            .accumulate = accumulate},
                               .accumulation = accumulation,
                               .checkpoint_every = every,
                               .is_tied = is_tied});
            }
          }
        }
      }
    }
  }
  return cases;
}

TEST_CASE("no strategy uses a buffer before a GPU would be ready") {
  for (const Case& c : all_cases()) {
    RecordingStreams streams;
    train(c, streams);
    INFO(name_of(c.strategy.kind) << " offload " << name_of(c.strategy.offload) << " "
                                  << name_of(c.strategy.accumulate) << " accumulation "
                                  << c.accumulation << " checkpointing " << c.checkpoint_every
                                  << " tied " << c.is_tied);
    CHECK(streams.hazards() == std::vector<std::string>{});
    CHECK(streams.live(BufferKind::kWhole) == 0);
    CHECK(streams.live(BufferKind::kGradient) == 0);
    CHECK(streams.live(BufferKind::kReducedShard) == 0);
  }
}

// Forgets to let one stream wait for another.
class ForgetfulStreams : public RecordingStreams {
 public:
  ForgetfulStreams(StreamId waiting, StreamId awaited) : waiting_(waiting), awaited_(awaited) {}
  EventPtr record(StreamId stream) override {
    EventPtr event = RecordingStreams::record(stream);
    recorded_on_[event] = stream;
    return event;
  }
  void block(StreamId stream, const EventPtr& event) override {
    if (stream == waiting_ && recorded_on_.at(event) == awaited_) return;
    RecordingStreams::block(stream, event);
  }

 private:
  StreamId waiting_;
  StreamId awaited_;
  std::map<EventPtr, StreamId> recorded_on_;
};

TEST_CASE("every wait between two streams is needed: without it the recording finds a hazard") {
  using enum StreamId;
  const StrategySpec fsdp{.kind = StrategyKind::kFsdp, .ranks = 2};
  StrategySpec fsdp_offload = fsdp;
  fsdp_offload.offload = Offload::kOptimizer;
  const std::vector<std::pair<StreamId, StreamId>> waits = {
      {kCompute, kGather}, {kGather, kCompute}, {kCompute, kReduce}, {kReduce, kCompute}};
  for (const auto& [waiting, awaited] : waits) {
    ForgetfulStreams streams(waiting, awaited);
    train({.strategy = fsdp, .accumulation = 2}, streams);
    CHECK_FALSE(streams.hazards().empty());
  }
  const std::vector<std::pair<StreamId, StreamId>> offload_waits = {
      {kCopy, kReduce}, {kReduce, kCopy}, {kHost, kCopy}, {kGather, kCopy}};
  for (const auto& [waiting, awaited] : offload_waits) {
    ForgetfulStreams streams(waiting, awaited);
    train({.strategy = fsdp_offload}, streams);
    CHECK_FALSE(streams.hazards().empty());
  }
  for (const auto& [waiting, awaited] : {std::pair{kCopy, kCompute}, std::pair{kCompute, kCopy}}) {
    ForgetfulStreams streams(waiting, awaited);
    train({.strategy = {.kind = StrategyKind::kSingle, .offload = Offload::kOptimizer}}, streams);
    CHECK_FALSE(streams.hazards().empty());
  }
}

TEST_CASE("fsdp holds at most two whole units and two whole gradients") {
  for (const int64_t every : {0, 1}) {
    RecordingStreams streams;
    train({.strategy = {.kind = StrategyKind::kFsdp, .ranks = 2},
           .accumulation = 2,
           .checkpoint_every = every},
          streams);
    CHECK(streams.live_max(BufferKind::kWhole) == 2);
    CHECK(streams.live_max(BufferKind::kGradient) == 2);
  }
}

TEST_CASE("fsdp gathers one unit ahead and reduces behind the next unit's backward") {
  RecordingStreams streams;
  train({.strategy = {.kind = StrategyKind::kFsdp, .ranks = 2}}, streams);
  const auto& log = streams.log();
  const auto position = [&](const std::string& entry, int occurrence = 1) {
    auto found = log.begin();
    for (int i = 0; i < occurrence; ++i) {
      found = std::find(i == 0 ? log.begin() : found + 1, log.end(), entry);
    }
    REQUIRE(found != log.end());
    return found - log.begin();
  };
  CHECK(position("gather: whole 2") < position("compute: whole 1"));
  CHECK(position("gather: whole 3") > position("compute: whole 1"));
  CHECK(position("gather: whole 2", 2) < position("compute: gradient 3"));
  CHECK(position("reduce: reduced shard 3") < position("compute: gradient 2"));
}

// With offload, one gradient is computed, one reduced, and one copied to the host.
TEST_CASE("ddp keeps every gradient, and with offload lets each leave early") {
  RecordingStreams kept;
  train({.strategy = {.kind = StrategyKind::kDdp, .ranks = 2}}, kept);
  CHECK(kept.live_max(BufferKind::kGradient) == kUnits);
  RecordingStreams offloaded;
  train({.strategy = {.kind = StrategyKind::kDdp, .ranks = 2, .offload = Offload::kOptimizer}},
        offloaded);
  CHECK(offloaded.live_max(BufferKind::kGradient) == 3);
}

}  // namespace
}  // namespace fsdp
