// Checks the order of every strategy's work on a GPU, without a GPU. Each real schedule runs over
// streams that record who has waited for whom.
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "contract/spec/run_spec_yaml.h"
#include "tests/trainer/small_decoder.h"
#include "tests/trainer/step/recording_streams.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/step/training_step.h"

namespace fsdp::schedule_test {

constexpr int kBlocks = 4;
constexpr int kUnits = kBlocks + 2;

RunSpec strategy_of(StrategyKind kind, Offload offload = Offload::kNone) {
  RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.ranks = kind == StrategyKind::kSingle ? 1 : 4;
  spec.strategy.shard_group_size = 2;
  spec.strategy.offload = offload;
  spec.batch.gradient_accumulation_steps = 1;
  spec.model.config = tiny_decoder(kBlocks);
  return spec;
}

// Trains `steps` optimizer steps, each with another learning rate. Evaluates after each step if
// `evaluates`. Returns all parameters.
at::Tensor train(const RunSpec& spec, Streams& streams, ProcessGroup& world, int64_t steps,
                 bool evaluates) {
  at::set_num_threads(1);
  const Mesh mesh(spec.strategy, world);
  Backend backend(at::kCPU, at::kCPU, std::shared_ptr<Streams>(std::shared_ptr<void>(), &streams),
                  std::make_unique<AtenKernels>(at::kCPU), make_memory_probe(at::kCPU));
  TrainingStep step(spec, spec.model.config, backend, mesh, world,
                    [](const Parameter&, int64_t, const at::Tensor& out) { out.fill_(0.01); });
  const at::Tensor tokens = at::arange(18, at::kLong).view({2, 9});
  const Batch batch{.input_ids_BT = tokens.narrow(1, 0, 8).contiguous(),
                    .labels_BT = tokens.narrow(1, 1, 8).contiguous(),
                    .loss_scale = 1.0 / 32};
  std::vector<Batch> micro_batches(*spec.batch.gradient_accumulation_steps, batch);
  for (int64_t i = 1; i <= steps; ++i) {
    step.run(i, micro_batches, 0.1 / static_cast<double>(i), 0.0, [] {});
    if (evaluates) step.evaluate(batch);
  }
  return at::cat(step.store().optimizer_parameters()).clone();
}

at::Tensor train(const RunSpec& spec, Streams& streams, int64_t steps, bool evaluates) {
  MirrorGroup world(static_cast<int>(spec.strategy.ranks));
  return train(spec, streams, world, steps, evaluates);
}

void train(const RunSpec& spec, Streams& streams) { train(spec, streams, 2, true); }

std::vector<std::string> log_of(const RunSpec& spec) {
  RecordingStreams streams;
  train(spec, streams);
  return streams.log();
}

// Calls visit(spec) for every combination of the members' values.
template <typename Visit>
void product(RunSpec spec, Visit visit) {
  visit(spec);
}
template <typename Value, typename Set, typename... More>
void product(RunSpec spec, const std::vector<Value>& values, Set set, More... more) {
  for (const Value& value : values) {
    set(spec) = value;
    product(spec, more...);
  }
}

std::vector<RunSpec> all_strategies() {
  std::vector<RunSpec> specs;
  for (const StrategyKind kind : {StrategyKind::kSingle, StrategyKind::kDdp}) {
    specs.push_back(strategy_of(kind));
  }
  for (const Sharding sharding :
       {Sharding::kFullShard, Sharding::kShardGradOp, Sharding::kNoShard, Sharding::kHybridShard}) {
    specs.push_back(strategy_of(StrategyKind::kFsdp));
    specs.back().strategy.sharding = sharding;
  }
  return specs;
}

void check_order(const RunSpec& spec) {
  RecordingStreams streams;
  // A late device is the worst case for buffers that are kept until it has passed them.
  streams.is_device_behind = spec.strategy.prefetch > 1;
  train(spec, streams);
  INFO(differences_from_default(spec));
  CHECK(streams.hazards() == std::vector<std::string>{});
  for (const BufferKind kind :
       {BufferKind::kWhole, BufferKind::kGradient, BufferKind::kReductionInput,
        BufferKind::kReducedShard, BufferKind::kConvertedShard}) {
    CHECK(streams.live(kind) == 0);
  }
}

TEST_CASE("no strategy uses a buffer before a GPU would be ready") {
  for (const RunSpec& base : all_strategies()) {
    product(
        base, std::vector{Offload::kNone, Offload::kOptimizer, Offload::kParameters},
        [](RunSpec & spec) -> auto& { return spec.strategy.offload; },
        std::vector{Accumulate::kSharded, Accumulate::kUnsharded},
        [](RunSpec & spec) -> auto& { return spec.strategy.accumulate; },
        std::vector<int64_t>{1, 2},
        [](RunSpec & spec) -> auto& { return spec.batch.gradient_accumulation_steps; },
        std::vector{PrecisionKind::kFp32, PrecisionKind::kBf16Mixed},
        [](RunSpec & spec) -> auto& { return spec.precision.kind; }, check_order);
  }
}

TEST_CASE("nor does any schedule of units") {
  for (const Sharding sharding : {Sharding::kFullShard, Sharding::kHybridShard}) {
    RunSpec base = strategy_of(StrategyKind::kFsdp);
    base.strategy.sharding = sharding;
    std::vector<WrapSpec> wraps(4);
    wraps[1].policy = WrapPolicy::kNone;
    wraps[2].blocks = 3;
    wraps[3].min_parameters = 2000;
    product(
        base, std::vector<int64_t>{0, 1, 3},
        [](RunSpec & spec) -> auto& { return spec.strategy.prefetch; }, std::vector{false, true},
        [](RunSpec & spec) -> auto& { return spec.strategy.limit_all_gathers; }, wraps,
        [](RunSpec & spec) -> auto& { return spec.strategy.wrap; }, std::vector<int64_t>{0, 2},
        [](RunSpec & spec) -> auto& { return spec.activation_checkpointing.every; },
        std::vector{false, true},
        [](RunSpec & spec) -> auto& { return spec.model.config.tie_word_embeddings; }, check_order);
  }
}

TEST_CASE("nor does any way to step") {
  for (const RunSpec& base : all_strategies()) {
    product(
        base, std::vector{Offload::kNone, Offload::kOptimizer, Offload::kParameters},
        [](RunSpec & spec) -> auto& { return spec.strategy.offload; },
        [](RunSpec spec) {
          spec.optimizer.in_backward = true;
          check_order(spec);
          spec.optimizer.in_backward = false;
          spec.optimizer.gradient_clip_norm = 1.0;
          check_order(spec);
          spec.optimizer.gradient_clip_norm.reset();
          spec.train.report_gradient_norm = true;
          check_order(spec);
        });
  }
}

// Leaves out the wait of one stream for another.
class ForgetfulStreams : public RecordingStreams {
 public:
  ForgetfulStreams(StreamId waiting, StreamId awaited) : waiting_(waiting), awaited_(awaited) {}
  void block(StreamId stream, const EventPtr& event) override {
    if (stream == waiting_ && stream_of(event) == awaited_) return;
    RecordingStreams::block(stream, event);
  }

 private:
  StreamId waiting_;
  StreamId awaited_;
};

TEST_CASE("every wait between two streams is needed: without it the recording finds a hazard") {
  using enum StreamId;
  using Waits = std::vector<std::pair<StreamId, StreamId>>;
  const auto each_is_needed = [](const RunSpec& spec, const Waits& waits) {
    for (const auto& [waiting, awaited] : waits) {
      ForgetfulStreams streams(waiting, awaited);
      train(spec, streams);
      INFO(differences_from_default(spec)
           << static_cast<int>(waiting) << " for " << static_cast<int>(awaited));
      CHECK_FALSE(streams.hazards().empty());
    }
  };
  RunSpec fsdp = strategy_of(StrategyKind::kFsdp);
  fsdp.batch.gradient_accumulation_steps = 2;
  each_is_needed(
      fsdp, {{kCompute, kGather}, {kGather, kCompute}, {kCompute, kReduce}, {kReduce, kCompute}});
  each_is_needed(strategy_of(StrategyKind::kFsdp, Offload::kOptimizer), {{kCopy, kReduce},
                                                                         {kReduce, kCopy},
                                                                         {kOptimizer, kCopy},
                                                                         {kGather, kCopy},
                                                                         {kHost, kOptimizer}});
  RunSpec offloaded = strategy_of(StrategyKind::kFsdp, Offload::kParameters);
  each_is_needed(offloaded, {{kOptimizer, kCopy}, {kHost, kOptimizer}});
  offloaded.optimizer.gradient_clip_norm = 1.0;
  each_is_needed(offloaded, {{kOptimizer, kCopy}, {kHost, kOptimizer}});
  each_is_needed(strategy_of(StrategyKind::kDdp), {{kReplicate, kCompute}, {kCompute, kReplicate}});
  RunSpec hybrid = strategy_of(StrategyKind::kFsdp);
  hybrid.strategy.sharding = Sharding::kHybridShard;
  each_is_needed(hybrid, {{kReplicate, kReduce}, {kCompute, kReplicate}});
  each_is_needed(strategy_of(StrategyKind::kSingle, Offload::kOptimizer),
                 {{kCopy, kCompute}, {kCompute, kCopy}});
}

int most_at_a_time(const RunSpec& spec, BufferKind kind) {
  RecordingStreams streams;
  train(spec, streams);
  return streams.live_max(kind);
}

TEST_CASE("full_shard holds at most 1 + prefetch whole units, and two whole gradients") {
  RunSpec spec = strategy_of(StrategyKind::kFsdp);
  for (const int64_t every : {0, 1}) {
    spec.activation_checkpointing.every = every;
    for (const int64_t prefetch : {0, 1, 2, 3}) {
      spec.strategy.prefetch = prefetch;
      CHECK(most_at_a_time(spec, BufferKind::kWhole) == 1 + prefetch);
      CHECK(most_at_a_time(spec, BufferKind::kGradient) == 2);
    }
  }
}

TEST_CASE("shard_grad_op holds every whole unit, hybrid_shard as many as full_shard") {
  RunSpec spec = strategy_of(StrategyKind::kFsdp);
  spec.strategy.sharding = Sharding::kShardGradOp;
  CHECK(most_at_a_time(spec, BufferKind::kWhole) == kUnits);
  CHECK(most_at_a_time(spec, BufferKind::kGradient) == 2);
  spec.strategy.sharding = Sharding::kHybridShard;
  CHECK(most_at_a_time(spec, BufferKind::kWhole) == 2);
  CHECK(most_at_a_time(spec, BufferKind::kGradient) == 2);
}

TEST_CASE("without limit_all_gathers a lagging device keeps the units it has not passed") {
  RunSpec spec = strategy_of(StrategyKind::kFsdp);
  spec.strategy.limit_all_gathers = false;
  RecordingStreams fast;
  train(spec, fast);
  CHECK(fast.live_max(BufferKind::kReleased) == 1);
  RecordingStreams behind;
  behind.is_device_behind = true;
  train(spec, behind);
  CHECK(behind.live_max(BufferKind::kReleased) > kUnits);
}

TEST_CASE("fsdp gathers one unit ahead and reduces behind the next unit's backward") {
  const auto log = log_of(strategy_of(StrategyKind::kFsdp));
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

TEST_CASE("an offloaded unit is stepped while the units before it run backward") {
  for (const Offload offload : {Offload::kOptimizer, Offload::kParameters}) {
    const auto log = log_of(strategy_of(StrategyKind::kFsdp, offload));
    const auto stepped = std::find(log.begin(), log.end(), "optimizer: host parameters 4");
    const auto computed = std::find(log.begin(), log.end(), "compute: gradient 1");
    CHECK(stepped < computed);
  }
}

// Counts the operations of its groups, by their name. beside() makes another counted group.
class CountedGroup : public MirrorGroup {
 public:
  using Counts = std::map<std::string, int>;
  CountedGroup(int size, std::string name, Counts& counts)
      : MirrorGroup(size), name_(std::move(name)), counts_(counts) {}

  Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
    ++counts_[name_ + " gathers"];
    return MirrorGroup::all_gather(output, shard, unit);
  }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override {
    ++counts_[name_ + " reduces"];
    return MirrorGroup::reduce_scatter(shard, input, unit);
  }
  std::unique_ptr<ProcessGroup> beside(const std::string& name) override {
    return std::make_unique<CountedGroup>(size(), name, counts_);
  }
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name,
                                         const std::vector<int>& ranks) override {
    return std::make_unique<CountedGroup>(static_cast<int>(ranks.size()), name, counts_);
  }

 private:
  std::string name_;
  Counts& counts_;
};

TEST_CASE("gathers do not queue behind reductions where a group beside is to be had") {
  RunSpec spec = strategy_of(StrategyKind::kFsdp);
  const bool is_hybrid = GENERATE(false, true);
  if (is_hybrid) spec.strategy.sharding = Sharding::kHybridShard;
  CountedGroup::Counts counts;
  CountedGroup world(4, "world", counts);
  RecordingStreams streams;
  train(spec, streams, world, 2, true);
  const std::string reducing = is_hybrid ? "shard" : "world";
  CHECK(counts[reducing + " gathers"] == 0);
  CHECK(counts["gather reduces"] == 0);
  CHECK(counts["gather gathers"] > kUnits);
  CHECK(counts[reducing + " reduces"] >= kUnits);
  CHECK(streams.hazards().empty());
}

// Logs when the host waits for the optimizer's thread.
class LoggingStreams : public RecordingStreams {
 public:
  void block(StreamId stream, const EventPtr& event) override {
    const bool is_for_optimizer = stream_of(event) == StreamId::kOptimizer;
    if (stream == StreamId::kHost && is_for_optimizer) note("host waits");
    RecordingStreams::block(stream, event);
  }
};

TEST_CASE("offloaded units that wait for clipping are stepped while the next forward runs") {
  const Offload offload = GENERATE(Offload::kOptimizer, Offload::kParameters);
  RunSpec spec = strategy_of(StrategyKind::kFsdp, offload);
  spec.optimizer.gradient_clip_norm = 1.0;
  LoggingStreams streams;
  train(spec, streams);
  CHECK(streams.hazards() == std::vector<std::string>{});
  const auto& log = streams.log();
  const auto first = std::find(log.begin(), log.end(), "optimizer: host parameters 0");
  REQUIRE(log.end() - first > kUnits);
  for (int unit = 0; unit < kUnits; ++unit) {
    CHECK(first[unit] == "optimizer: host parameters " + std::to_string(unit));
  }
  // The host waits for the unit itself, and for the unit that is gathered ahead.
  const auto computed = std::find(first, log.end(), "compute: whole 0");
  CHECK(std::count(first, computed, "host waits") == 2);
}

// The optimizer's thread does nothing before the host waits for it.
class LateStreams : public RecordingStreams {
 public:
  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override {
    if (stream != StreamId::kOptimizer) return RecordingStreams::run(stream, accesses, work);
    RecordingStreams::run(stream, accesses, [] {});
    work_.push_back(work);
  }
  EventPtr record(StreamId stream) override {
    EventPtr event = RecordingStreams::record(stream);
    if (stream == StreamId::kOptimizer) work_before_[event] = work_.size();
    return event;
  }
  void block(StreamId stream, const EventPtr& event) override {
    RecordingStreams::block(stream, event);
    const auto found = work_before_.find(event);
    if (stream != StreamId::kHost || found == work_before_.end()) return;
    for (; done_ < found->second; ++done_) work_[done_]();
  }

 private:
  std::vector<std::function<void()>> work_;
  std::map<EventPtr, size_t> work_before_;
  size_t done_ = 0;
};

TEST_CASE("offload: a late optimizer steps as the step said that it belongs to") {
  RunSpec spec =
      strategy_of(StrategyKind::kFsdp, GENERATE(Offload::kOptimizer, Offload::kParameters));
  spec.optimizer.gradient_clip_norm = GENERATE(0.1, 1000.0);
  RecordingStreams at_once;
  LateStreams late;
  const at::Tensor expected = train(spec, at_once, 3, false);
  CHECK(train(spec, late, 3, false).equal(expected));
  spec.strategy.offload = Offload::kNone;
  CHECK(train(spec, at_once, 3, false).equal(expected));
}

TEST_CASE("an offloaded unit's norm is measured while the units before it run backward") {
  RunSpec spec = strategy_of(StrategyKind::kFsdp, Offload::kOptimizer);
  spec.optimizer.gradient_clip_norm = 1.0;
  const auto log = log_of(spec);
  const auto measured = std::find(log.begin(), log.end(), "optimizer: host gradient 4");
  const auto computed = std::find(log.begin(), log.end(), "compute: gradient 1");
  CHECK(measured < computed);
}

TEST_CASE("without offload units are stepped in the order in which the next forward gathers them") {
  const auto log = log_of(strategy_of(StrategyKind::kFsdp));
  const auto stepped = std::find(log.begin(), log.end(), "compute: parameters 0");
  REQUIRE(log.end() - stepped > kUnits);
  for (int unit = 0; unit < kUnits; ++unit) {
    CHECK(stepped[unit] == "compute: parameters " + std::to_string(unit));
  }
}

TEST_CASE("parameters that live on the host come for each use, also those of a replica") {
  for (const StrategyKind kind : {StrategyKind::kSingle, StrategyKind::kDdp}) {
    for (const PrecisionKind precision : {PrecisionKind::kFp32, PrecisionKind::kBf16Mixed}) {
      RunSpec spec = strategy_of(kind, Offload::kParameters);
      spec.precision.kind = precision;
      spec.batch.gradient_accumulation_steps = 2;
      CHECK(most_at_a_time(spec, BufferKind::kWhole) == 2);
    }
  }
}

TEST_CASE("a replica converts its weights once a step, whatever the number of micro-batches") {
  for (const StrategyKind kind : {StrategyKind::kSingle, StrategyKind::kDdp}) {
    RunSpec spec = strategy_of(kind);
    spec.precision.kind = PrecisionKind::kBf16Mixed;
    const auto conversions = [&](int64_t micro_batches) {
      spec.batch.gradient_accumulation_steps = micro_batches;
      const auto log = log_of(spec);
      return std::count(log.begin(), log.end(), "gather: whole 1");
    };
    CHECK(conversions(1) == 4);  // two steps and two evaluations
    CHECK(conversions(3) == 4);
  }
}

// With offload, one gradient is computed, one reduced and one copied to the host at a time.
TEST_CASE("ddp keeps every gradient; offloaded or stepped in backward, each leaves early") {
  RunSpec spec = strategy_of(StrategyKind::kDdp);
  CHECK(most_at_a_time(spec, BufferKind::kGradient) == kUnits);
  spec.strategy.offload = Offload::kOptimizer;
  CHECK(most_at_a_time(spec, BufferKind::kGradient) == 3);
  spec.strategy.offload = Offload::kNone;
  spec.optimizer.in_backward = true;
  CHECK(most_at_a_time(spec, BufferKind::kGradient) == 2);
}

TEST_CASE("stepped in backward, fsdp keeps no gradient shard until the end") {
  RunSpec spec = strategy_of(StrategyKind::kFsdp);
  CHECK(most_at_a_time(spec, BufferKind::kReducedShard) == kUnits);
  spec.optimizer.in_backward = true;
  CHECK(most_at_a_time(spec, BufferKind::kReducedShard) == 1);
}

}  // namespace fsdp::schedule_test
