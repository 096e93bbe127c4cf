// An exception ends a step while the optimizer's thread still has work that uses the step.
#include <ATen/Parallel.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "contract/spec/run_spec_yaml.h"
#include "tests/trainer/small_decoder.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/step/training_step.h"

namespace fsdp::failing_step_test {

enum class Place { kForward, kBackward, kPutGradient, kOptimizer, kFinishStep };

// Throws the second time that the step comes to `place`. Every step comes there several times.
class Failure {
 public:
  explicit Failure(Place place) : place_(place) {}
  void come_to(Place place) {
    if (place == place_ && ++times_ == 2) throw std::runtime_error("thrown by the test");
  }

 private:
  Place place_;
  std::atomic<int> times_ = 0;
};

class FailingKernels : public AtenKernels {
 public:
  explicit FailingKernels(Failure& failure) : AtenKernels(at::kCPU), failure_(failure) {}
  at::Tensor swiglu(const at::Tensor& gate_up_N2F) override {
    failure_.come_to(Place::kForward);
    return AtenKernels::swiglu(gate_up_N2F);
  }
  SwigluGradients swiglu_backward(at::Tensor dh_NF, const at::Tensor& gate_up_N2F) override {
    failure_.come_to(Place::kBackward);
    return AtenKernels::swiglu_backward(std::move(dh_NF), gate_up_N2F);
  }

 private:
  Failure& failure_;
};

// A CPU's streams with a late optimizer thread. It works only if it is waited for, so it has work
// left wherever a step ends.
class LateOptimizer : public Streams {
 public:
  explicit LateOptimizer(Failure& failure) : failure_(failure) {}

  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override {
    if (stream == StreamId::kCopy && accesses.writes.begin()->kind == BufferKind::kHostGradient) {
      failure_.come_to(Place::kPutGradient);
    }
    if (stream != StreamId::kOptimizer) {
      streams_->run(stream, accesses, work);
      return;
    }
    ++left_;
    streams_->run(stream, accesses, [this, work] {
      wait_for_turn();
      --left_;
      if (is_step_gone_) {
        ++too_late_;
        return;
      }
      failure_.come_to(Place::kOptimizer);
      work();
    });
  }
  EventPtr record(StreamId stream) override { return streams_->record(stream); }
  void block(StreamId stream, const EventPtr& event) override {
    const bool is_for_optimizer = stream == StreamId::kHost && event != nullptr;
    if (is_for_optimizer) {
      failure_.come_to(Place::kFinishStep);
      allow(1);
    }
    streams_->block(stream, event);
  }
  bool is_done(const EventPtr& event) override { return streams_->is_done(event); }
  void drain() noexcept override {
    left_at_drain_ = left_;
    allow(kAll);
    streams_->drain();
  }
  void allocated(StreamId, Buffer) override {}
  void freed(Buffer) override {}
  void renamed(Buffer, Buffer) override {}

  // Notes that the step was destroyed, and lets all work run.
  void step_is_gone() {
    is_step_gone_ = true;
    allow(kAll);
    streams_->drain();
  }
  int left_at_drain() const { return left_at_drain_; }
  // The number of pieces of work that began after the step was destroyed.
  int too_late() const { return too_late_; }

 private:
  static constexpr int kAll = 1000;

  void allow(int count) {
    const std::lock_guard lock(mutex_);
    allowed_ += count;
    is_allowed_.notify_all();
  }
  void wait_for_turn() {
    std::unique_lock lock(mutex_);
    is_allowed_.wait(lock, [this] { return allowed_ > 0; });
    --allowed_;
  }

  Failure& failure_;
  std::mutex mutex_;
  std::condition_variable is_allowed_;
  int allowed_ = 0;
  std::atomic<int> left_ = 0;
  std::atomic<bool> is_step_gone_ = false;
  std::atomic<int> too_late_ = 0;
  int left_at_drain_ = 0;
  std::unique_ptr<Streams> streams_ = make_streams(at::kCPU);  // last: its thread ends first
};

RunSpec offloaded(StrategyKind kind, Offload offload, bool in_backward) {
  RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.ranks = kind == StrategyKind::kSingle ? 1 : 4;
  spec.strategy.offload = offload;
  spec.optimizer.in_backward = in_backward;
  spec.batch.gradient_accumulation_steps = 1;
  spec.model.config = tiny_decoder();
  return spec;
}

void train(const RunSpec& spec, Backend& backend) {
  MirrorGroup world(static_cast<int>(spec.strategy.ranks));
  const Mesh mesh(spec.strategy, world);
  TrainingStep step(spec, spec.model.config, backend, mesh, world,
                    [](const Parameter&, int64_t, const at::Tensor& out) { out.fill_(0.01); });
  const at::Tensor tokens = at::randint(31, {2, 9}, at::kLong);
  std::vector<Batch> batches{{.input_ids_BT = tokens.narrow(1, 0, 8).contiguous(),
                              .labels_BT = tokens.narrow(1, 1, 8).contiguous(),
                              .loss_scale = 1.0 / 16}};
  step.run(1, batches, 0.1, 0.0, [] {});
}

void check_that_nothing_comes_too_late(const RunSpec& spec, Place place) {
  Failure failure(place);
  const auto streams = std::make_shared<LateOptimizer>(failure);
  Backend backend(at::kCPU, at::kCPU, streams, std::make_unique<FailingKernels>(failure),
                  make_memory_probe(at::kCPU));
  CHECK_THROWS_WITH(train(spec, backend), "thrown by the test");
  streams->step_is_gone();
  CHECK(streams->too_late() == 0);
  const bool is_work_left =
      place == Place::kFinishStep ||
      (spec.optimizer.in_backward && place != Place::kForward && place != Place::kOptimizer);
  if (is_work_left) CHECK(streams->left_at_drain() > 0);
}

TEST_CASE("an offloaded step that fails anywhere is not destroyed under its optimizer's work") {
  at::set_num_threads(1);
  const auto place = GENERATE(Place::kForward, Place::kBackward, Place::kPutGradient,
                              Place::kOptimizer, Place::kFinishStep);
  const auto kind = GENERATE(StrategyKind::kSingle, StrategyKind::kFsdp);
  const auto offload = GENERATE(Offload::kOptimizer, Offload::kParameters);
  const bool in_backward = GENERATE(false, true);
  const RunSpec spec = offloaded(kind, offload, in_backward);
  INFO(differences_from_default(spec) << "place " << static_cast<int>(place));
  check_that_nothing_comes_too_late(spec, place);
}

}  // namespace fsdp::failing_step_test
