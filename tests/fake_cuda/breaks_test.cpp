// Each test makes one fault in a step on the fake GPU, which records memory and the order of work.
// Its records must name the fault.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>

#include <catch2/catch.hpp>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/fake_cuda/gpu_allocations.h"
#include "tests/fakes/cuda/order.h"
#include "tests/trainer/small_decoder.h"
#include "trainer/comm/backends.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/step/training_step.h"

namespace fsdp::breaks_test {

using Catch::VectorContains;
using Catch::Matchers::Contains;
using enum StreamId;

const at::Device kDevice(at::kCUDA, kGpu);

StepCase sharded_step() {
  StepCase step_case;
  RunSpec& spec = step_case.spec;
  spec.strategy.kind = StrategyKind::kFsdp;
  spec.strategy.ranks = 2;
  spec.batch.gradient_accumulation_steps = 1;
  spec.model.config = small_decoder(3, 96);
  return step_case;
}

std::unique_ptr<Backend> gpu_with(std::shared_ptr<Streams> streams,
                                  std::unique_ptr<Kernels> kernels) {
  make_backend(kDevice);
  return std::make_unique<Backend>(kDevice, kDevice.type(), std::move(streams), std::move(kernels),
                                   make_memory_probe(kDevice));
}

// --- the order of streams ---

class PassingStreams : public Streams {
 public:
  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override {
    real_->run(stream, accesses, work);
  }
  EventPtr record(StreamId stream) override { return real_->record(stream); }
  void block(StreamId stream, const EventPtr& event) override { real_->block(stream, event); }
  bool is_done(const EventPtr& event) override { return real_->is_done(event); }
  void drain() noexcept override { real_->drain(); }
  void allocated(StreamId, Buffer) override {}
  void freed(Buffer) override {}
  void renamed(Buffer, Buffer) override {}

 private:
  std::unique_ptr<Streams> real_ = make_streams(kDevice);
};

std::vector<std::string> hazards_of(const StepCase& step_case, std::shared_ptr<Streams> streams) {
  fake_cuda::watch_order(/*collects=*/true);
  fake_cuda::forget_hazards();
  const auto backend =
      gpu_with(std::move(streams), std::make_unique<AtenKernels>(at::kCUDA, kCapability / 10));
  allocations(step_case, *backend, observe_cuda);
  const std::vector<std::string> hazards = fake_cuda::hazards();
  fake_cuda::forget_hazards();
  return hazards;
}

// True if a hazard begins with the operator that comes too early and names the awaited one.
bool names(const std::vector<std::string>& hazards, const std::string& early,
           const std::string& awaited) {
  std::string all;
  for (const std::string& hazard : hazards) all += hazard + "\n";
  UNSCOPED_INFO(all);
  return std::ranges::any_of(hazards, [&](const std::string& hazard) {
    return hazard.starts_with(early) && hazard.find("waited for " + awaited) != hazard.npos;
  });
}

// Leaves out wait number `number` (from 1) of the stream `waiting` for `awaited`.
class StreamsWithoutWait : public PassingStreams {
 public:
  StreamsWithoutWait(StreamId waiting, StreamId awaited, int number)
      : waiting_(waiting), awaited_(awaited), number_(number) {}
  EventPtr record(StreamId stream) override {
    EventPtr event = PassingStreams::record(stream);
    recorded_on_[event] = stream;
    return event;
  }
  void block(StreamId stream, const EventPtr& event) override {
    const bool is_left_out =
        stream == waiting_ && recorded_on_.at(event) == awaited_ && ++waits_ == number_;
    if (!is_left_out) PassingStreams::block(stream, event);
  }

 private:
  StreamId waiting_;
  StreamId awaited_;
  int number_;
  int waits_ = 0;
  std::map<EventPtr, StreamId> recorded_on_;
};

TEST_CASE("break: compute does not wait for a unit to be gathered") {
  const auto hazards =
      hazards_of(sharded_step(), std::make_shared<StreamsWithoutWait>(kCompute, kGather, 1));
  CHECK(names(hazards, "aten::", "aten::copy_"));
}

TEST_CASE("break: a gathered unit is released before its reader is done") {
  const auto hazards =
      hazards_of(sharded_step(), std::make_shared<StreamsWithoutWait>(kGather, kCompute, 3));
  CHECK(names(hazards, "aten::copy_", "aten::"));
}

TEST_CASE("break: a gradient's shard is freed before it is added to the sum") {
  StepCase step_case = sharded_step();
  step_case.spec.batch.gradient_accumulation_steps = 3;
  const auto hazards =
      hazards_of(step_case, std::make_shared<StreamsWithoutWait>(kReduce, kCompute, 7));
  CHECK(names(hazards, "aten::copy_", "aten::add_"));
}

// Returns an event that it recorded before the stream's last work.
class StreamsThatRecordEarly : public PassingStreams {
 public:
  explicit StreamsThatRecordEarly(StreamId stream) : stream_(stream) {}
  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override {
    if (stream == stream_) before_ = PassingStreams::record(stream);
    PassingStreams::run(stream, accesses, work);
  }
  EventPtr record(StreamId stream) override {
    return stream == stream_ && before_ ? before_ : PassingStreams::record(stream);
  }

 private:
  StreamId stream_;
  EventPtr before_;
};

TEST_CASE("break: an event is recorded before the work that it stands for") {
  const auto hazards =
      hazards_of(sharded_step(), std::make_shared<StreamsThatRecordEarly>(kReduce));
  CHECK(names(hazards, "fused_adam", "aten::mul"));
}

// Records events of the gathers on the stream of the reductions.
class StreamsThatRecordElsewhere : public PassingStreams {
 public:
  EventPtr record(StreamId stream) override {
    return PassingStreams::record(stream == kGather ? kReduce : stream);
  }
};

TEST_CASE("break: an event is recorded on the wrong stream") {
  const auto hazards = hazards_of(sharded_step(), std::make_shared<StreamsThatRecordElsewhere>());
  CHECK(names(hazards, "aten::", "aten::copy_"));
}

// --- the host's memory ---

StepCase offloaded_step() {
  StepCase step_case = sharded_step();
  step_case.spec.strategy.offload = Offload::kOptimizer;
  return step_case;
}

TEST_CASE("break: the optimizer reads a gradient that is still copied to the host") {
  const auto hazards =
      hazards_of(offloaded_step(), std::make_shared<StreamsWithoutWait>(kOptimizer, kCopy, 1));
  CHECK(names(hazards, "aten::_fused_adamw_ on the host", "a copy"));
}

// Copies on a stream that nobody waits for.
class StreamsThatCopyElsewhere : public PassingStreams {
 public:
  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override {
    if (stream != kCopy) return PassingStreams::run(stream, accesses, work);
    PassingStreams::run(stream, accesses, [&] {
      const c10::cuda::CUDAStreamGuard elsewhere(elsewhere_);
      work();
    });
  }

 private:
  c10::cuda::CUDAStream elsewhere_ = c10::cuda::getStreamFromPool(false, kGpu);
};

TEST_CASE("break: the optimizer overwrites parameters that are still copied to the device") {
  const auto hazards = hazards_of(offloaded_step(), std::make_shared<StreamsThatCopyElsewhere>());
  CHECK(names(hazards, "aten::_fused_adamw_ on the host", "a copy"));
  CHECK(names(hazards, "aten::copy_ on stream", "aten::copy_"));
}

class StreamsThatDoNotDrain : public PassingStreams {
 public:
  void drain() noexcept override {}
};

TEST_CASE("break: the host's memory is let go while a copy reads it") {
  StepCase step_case = sharded_step();
  step_case.spec.strategy.offload = Offload::kParameters;
  const auto hazards = hazards_of(step_case, std::make_shared<StreamsThatDoNotDrain>());
  CHECK(names(hazards, "the host, which lets memory go,", "a copy"));
}

// --- memory, and what ATen takes ---

// True if the step allocates the same with these kernels on the GPU and the real ones on meta.
template <typename Broken>
bool allocates_as_planned(const StepCase& step_case) {
  const auto gpu = gpu_with(make_streams(kDevice), std::make_unique<Broken>());
  const auto meta = make_meta_backend(at::kCUDA, KernelSet::kAten, nullptr, kCapability);
  const auto sizes = [](const std::vector<Allocation>& log) {
    std::vector<int64_t> bytes;
    for (const Allocation& allocation : without_workspace(log, kWithWorkspace)) {
      bytes.push_back(allocation.bytes);
    }
    return bytes;
  };
  return sizes(allocations(step_case, *gpu, observe_cuda)) ==
         sizes(allocations(step_case, *meta, observe(MetaAllocator::instance())));
}

template <typename Broken>
std::string refusal_of_aten(const StepCase& step_case) {
  try {
    allocates_as_planned<Broken>(step_case);
  } catch (const c10::Error& error) {
    observe_cuda({});
    return error.what_without_backtrace();
  }
  return "";
}

struct GpuKernels : AtenKernels {
  GpuKernels() : AtenKernels(at::kCUDA, kCapability / 10) {}
};

TEST_CASE("no break: kernels without a fault allocate what is planned") {
  CHECK(allocates_as_planned<GpuKernels>(sharded_step()));
}

TEST_CASE("break: a kernel takes memory that no plan has") {
  struct Broken : GpuKernels {
    at::Tensor swiglu(const at::Tensor& gate_up_N2F) override {
      const at::Tensor temporary = at::empty_like(gate_up_N2F);
      return GpuKernels::swiglu(gate_up_N2F);
    }
  };
  CHECK_FALSE(allocates_as_planned<Broken>(sharded_step()));
}

TEST_CASE("break: a kernel keeps memory until its next call") {
  struct Broken : GpuKernels {
    at::Tensor swiglu(const at::Tensor& gate_up_N2F) override {
      return kept = GpuKernels::swiglu(gate_up_N2F);
    }
    at::Tensor kept;
  };
  CHECK_FALSE(allocates_as_planned<Broken>(sharded_step()));
}

StepCase bf16_step() {
  StepCase step_case = sharded_step();
  step_case.spec.precision.kind = PrecisionKind::kBf16Mixed;
  return step_case;
}

TEST_CASE("break: a bf16 table is made in fp32") {
  struct Broken : GpuKernels {
    RotaryTable rotary_table(const at::Tensor& angles, const DocumentsPtr& documents,
                             at::ScalarType buffer_type, at::ScalarType,
                             bool lengths_vary) override {
      return GpuKernels::rotary_table(angles, documents, buffer_type, at::kFloat, lengths_vary);
    }
  };
  if (kHasCudaKernels) {
    CHECK_THAT(refusal_of_aten<Broken>(bf16_step()), Contains("cosines of"));
  } else {
    CHECK_FALSE(allocates_as_planned<Broken>(bf16_step()));
  }
}

TEST_CASE("break: a product's matrices are of two dtypes") {
  struct Broken : GpuKernels {
    at::Tensor swiglu(const at::Tensor& gate_up_N2F) override {
      return GpuKernels::swiglu(gate_up_N2F).to(at::kFloat);
    }
  };
  CHECK_THAT(refusal_of_aten<Broken>(bf16_step()), Contains("same dtype"));
}

TEST_CASE("break: weights are left on the host") {
  struct Broken : GpuKernels {
    at::Tensor embedding(const at::Tensor& weight_VD, const at::Tensor& token_ids_N) override {
      return GpuKernels::embedding(weight_VD.cpu(), token_ids_N);
    }
  };
  CHECK_THAT(refusal_of_aten<Broken>(sharded_step()), Contains("device"));
}

// --- what ranks call ---

class PassingGroup : public ProcessGroup {
 public:
  explicit PassingGroup(ProcessGroup& real) : ProcessGroup(real.rank(), real.size()), real_(real) {}
  Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
    return real_.all_gather(output, shard, unit);
  }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override {
    return real_.reduce_scatter(shard, input, unit);
  }
  Pending all_reduce(at::Tensor tensor, int unit) override {
    return real_.all_reduce(tensor, unit);
  }
  void barrier() override { real_.barrier(); }
  std::string agree(const std::string& key, const std::string& value) override {
    return real_.agree(key, value);
  }
  void leave(const std::string& key, const std::string& value) override { real_.leave(key, value); }
  bool is_left(const std::string& key) override { return real_.is_left(key); }
  std::string take(const std::string& key) override { return real_.take(key); }
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name,
                                         const std::vector<int>& ranks) override {
    return real_.subgroup(name, ranks);
  }

 private:
  ProcessGroup& real_;
};

void step_once(const RunSpec& spec, ProcessGroup& group, at::Device device) {
  const auto backend = make_backend(device, KernelSet::kAten);
  const Mesh mesh(spec.strategy, group);
  TrainingStep step(spec, spec.model.config, *backend, mesh, group,
                    [](const Parameter&, int64_t, const at::Tensor& out) { out.fill_(0.01); });
  const at::Tensor ids = at::zeros({2, 32}, at::TensorOptions(at::kLong).device(device));
  std::vector<Batch> batches{{.input_ids_BT = ids, .labels_BT = ids, .loss_scale = 1.0 / 64}};
  step.run(1, batches, 0.1, 0.0, [] {});
}

// Runs two ranks as threads with one NCCL group, each on a GPU of its own. Rank 1 calls the group
// through a `Broken`.
template <typename Broken>
std::vector<std::string> hazards_of_ranks() {
  fake_cuda::watch_order(/*collects=*/true);
  fake_cuda::forget_hazards();
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto rank = [&](int number) {
    const at::Device device(at::kCUDA, number == 1 ? kOtherGpu : kGpu);
    const c10::cuda::CUDAStreamGuard compute(c10::cuda::getStreamFromPool(false, device.index()));
    Membership membership;
    membership.rank = number;
    membership.ranks = {0, 1};
    membership.world_size = 2;
    membership.ranks_per_host = 2;
    membership.store = store;
    membership.transport_timeout = std::chrono::minutes(5);
    membership.watchdog = std::make_shared<Watchdog>(membership.transport_timeout, nullptr);
    const auto group = make_nccl_group(std::move(membership), device);
    Broken broken(*group);
    step_once(sharded_step().spec, number == 1 ? broken : *group, device);
    group->barrier();
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  const std::vector<std::string> hazards = fake_cuda::hazards();
  fake_cuda::forget_hazards();
  return hazards;
}

TEST_CASE("no break: two ranks that call the same are right") {
  CHECK(hazards_of_ranks<PassingGroup>() == std::vector<std::string>{});
}

TEST_CASE("break: one rank gathers two units in another order") {
  class Broken : public PassingGroup {
   public:
    using PassingGroup::PassingGroup;
    Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
      if (++calls_ == 1) {
        late_ = [=, this] { PassingGroup::all_gather(output, shard, unit).wait(); };
        return {};
      }
      PassingGroup::all_gather(output, shard, unit).wait();
      if (auto late = std::exchange(late_, nullptr)) late();
      return {};
    }

   private:
    int calls_ = 0;
    std::function<void()> late_;
  };
  CHECK_THAT(hazards_of_ranks<Broken>(),
             VectorContains(std::string("collective 1 is all_gather of 3072 float32 on rank 0, "
                                        "and all_gather of 15424 float32 on rank 1")));
}

TEST_CASE("break: one rank reduces another number of elements") {
  struct Broken : PassingGroup {
    using PassingGroup::PassingGroup;
    Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override {
      const auto half = [](const at::Tensor& x) { return x.narrow(0, 0, x.numel() / 2); };
      return PassingGroup::reduce_scatter(half(shard), half(input), unit);
    }
  };
  CHECK_THAT(hazards_of_ranks<Broken>(),
             VectorContains(std::string("collective 6 is reduce_scatter of 3104 float32 on rank 0, "
                                        "and reduce_scatter of 1552 float32 on rank 1")));
}

TEST_CASE("break: one rank gathers another dtype") {
  struct Broken : PassingGroup {
    using PassingGroup::PassingGroup;
    Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
      return PassingGroup::all_gather(output.view(at::kInt), shard.view(at::kInt), unit);
    }
  };
  CHECK_THAT(hazards_of_ranks<Broken>(),
             VectorContains(std::string("collective 1 is all_gather of 3072 float32 on rank 0, "
                                        "and all_gather of 3072 int32 on rank 1")));
}

TEST_CASE("break: a collective is issued on a stream that waits for nobody") {
  struct Broken : PassingGroup {
    using PassingGroup::PassingGroup;
    Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override {
      if (unit > 0) return PassingGroup::reduce_scatter(shard, input, unit);
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, kOtherGpu));
      return PassingGroup::reduce_scatter(shard, input, unit);
    }
  };
  CHECK(names(hazards_of_ranks<Broken>(), "reduce_scatter", "aten::index_add_"));
}

}  // namespace fsdp::breaks_test
