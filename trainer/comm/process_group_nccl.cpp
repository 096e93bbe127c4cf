// Connects ranks on GPUs by NCCL. An operation is ordered on the stream that is current.
#include <c10/core/Event.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <numeric>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/comm/backends.h"

namespace fsdp {
namespace {

// The time between two points of a stream. The first point lies before NCCL's waits, such as for an
// earlier operation in the same communicator on another stream.
class StreamInterval : public CommunicationClock::Interval {
 public:
  void record_begin(const c10::Stream& stream) { begin_.record(stream); }
  void record_end(const c10::Stream& stream) { end_.record(stream); }
  bool is_begun() const { return begin_.query(); }
  bool is_ended() const { return end_.query(); }
  CommunicationClock::Span after(const Interval& origin) const override {
    const auto& start = dynamic_cast<const StreamInterval&>(origin).begin_;
    end_.synchronize();
    return {.begin_ms = start.elapsedTime(begin_), .end_ms = start.elapsedTime(end_)};
  }

 private:
  c10::Event begin_{c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT};
  c10::Event end_{c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT};
};

// Reuses intervals after their last user, on any thread. A new event takes a driver call.
class IntervalPool : public std::enable_shared_from_this<IntervalPool> {
 public:
  std::shared_ptr<StreamInterval> take() {
    return {take_free().release(), [pool = shared_from_this()](StreamInterval* interval) {
              const std::lock_guard lock(pool->mutex_);
              pool->free_.emplace_back(interval);
            }};
  }

 private:
  std::unique_ptr<StreamInterval> take_free() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<StreamInterval>();
    std::unique_ptr<StreamInterval> interval = std::move(free_.back());
    free_.pop_back();
    return interval;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<StreamInterval>> free_;
};

// With asyncOp false, NCCL runs an operation on the caller's current stream and returns no Work.
// Streams and events then order it like any kernel.
class NcclGroup : public ProcessGroup {
 public:
  NcclGroup(Membership membership, c10::intrusive_ptr<c10d::Backend> backend, at::Device device)
      : ProcessGroup(membership.rank, membership.size(), membership.clock),
        membership_(std::move(membership)),
        backend_(std::move(backend)),
        device_(device) {}
  ~NcclGroup() override {
    try {
      backend_->shutdown();
    } catch (const std::exception&) {  // the device or a peer has failed
    }
  }

  Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
    c10d::AllgatherOptions options;
    options.asyncOp = false;
    return issue({"all_gather", unit, static_cast<int64_t>(output.nbytes())},
                 [&] { return backend_->_allgather_base(output, shard, options); });
  }

  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override {
    c10d::ReduceScatterOptions options;
    options.asyncOp = false;
    return issue({"reduce_scatter", unit, static_cast<int64_t>(input.nbytes())},
                 [&] { return backend_->_reduce_scatter_base(shard, input, options); });
  }

  Pending all_reduce(at::Tensor tensor, int unit) override {
    c10d::AllreduceOptions options;
    options.asyncOp = false;
    std::vector<at::Tensor> tensors{tensor};
    return issue({"all_reduce", unit, static_cast<int64_t>(tensor.nbytes())},
                 [&] { return backend_->allreduce(tensors, options); });
  }

  void barrier() override {
    c10d::BarrierOptions options;
    options.device = device_;
    call("barrier", kNoUnit, [&] { backend_->barrier(options)->wait(); });
  }

  std::shared_ptr<const CommunicationClock::Interval> now() override {
    const c10::Stream stream = c10::cuda::getCurrentCUDAStream(device_.index()).unwrap();
    const std::shared_ptr<StreamInterval> now = intervals_->take();
    now->record_begin(stream);
    now->record_end(stream);
    return now;
  }

  std::string agree(const std::string& key, const std::string& value) override {
    return membership_.agree(key, value);
  }
  void leave(const std::string& key, const std::string& value) override {
    membership_.leave(key, value);
  }
  bool is_left(const std::string& key) override { return membership_.is_left(key); }
  std::string take(const std::string& key) override { return membership_.take(key); }

  std::unique_ptr<ProcessGroup> beside(const std::string& name) override {
    if (!membership_.spans_hosts()) return nullptr;
    std::vector<int> ranks(size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return subgroup(name, ranks);
  }
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name,
                                         const std::vector<int>& ranks) override {
    Membership part = membership_.subgroup(name, ranks);
    if (part.size() == 1) return make_single_rank_group();
    return make_nccl_group(std::move(part), device_);
  }

 private:
  // Calls `run`, which may wait for the other ranks: the first operation connects to them.
  template <typename Run>
  void call(const char* operation, int unit, Run run) {
    try {
      const Watchdog::Watched watched = membership_.watch(operation, unit);
      run();
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      throw CommunicationError(membership_.describe_failure(operation, unit, error));
    }
  }

  // Puts the work of `run` on the current stream, and has the stream's progress watched and timed.
  template <typename Run>
  Pending issue(const CommunicationClock::Label& label, Run run) {
    const c10::Stream stream = c10::cuda::getCurrentCUDAStream(device_.index()).unwrap();
    const std::shared_ptr<StreamInterval> interval = intervals_->take();
    interval->record_begin(stream);
    call(label.name, label.unit, [&] {
      TORCH_CHECK(!run(), "NCCL gave a Work for an operation on the current stream");
      interval->record_end(stream);
    });
    membership_.watchdog->watch_device(
        membership_.describe(label.name, label.unit),
        [interval, device = device_] { return progress(*interval, device); });
    if (size() > 1) clock().add(label, interval);
    return {};
  }

  static Watchdog::Progress progress(const StreamInterval& interval, at::Device device) {
    try {
      // The device stays current: a return to device 0, or destroying an event there, would create
      // a context on device 0.
      c10::cuda::set_device(device.index(), /*force=*/true);
      if (interval.is_ended()) return Watchdog::Progress::kComplete;
      return interval.is_begun() ? Watchdog::Progress::kRunning : Watchdog::Progress::kQueued;
    } catch (const std::exception&) {
      return Watchdog::Progress::kComplete;  // the device has failed; its user learns of it
    }
  }

  Membership membership_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  at::Device device_;
  std::shared_ptr<IntervalPool> intervals_ = std::make_shared<IntervalPool>();
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_group(Membership membership, at::Device device) {
  c10::cuda::set_device(device.index());
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = membership.transport_timeout;
  options->group_name = membership.name;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(membership.store, membership.rank,
                                                             membership.size(), options);
  backend->setBoundDeviceId(device);
  return std::make_unique<NcclGroup>(std::move(membership), std::move(backend), device);
}

}  // namespace fsdp
