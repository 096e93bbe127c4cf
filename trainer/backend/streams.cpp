// Runs work on CUDA's streams, or at once on the CPU. The optimizer's thread is a stream, too.
#include "trainer/backend/streams.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <optional>

#include "trainer/backend/worker.h"
#include "trainer/memory/memory_label.h"

namespace fsdp {
namespace {

class HostStreams : public Streams {
 public:
  void run(StreamId stream, const Accesses&, const std::function<void()>& work) override {
    const MemoryPool pool(stream == StreamId::kHost ? kComputePool : static_cast<int>(stream));
    work();
  }
  EventPtr record(StreamId) override { return nullptr; }
  void block(StreamId, const EventPtr&) override {}
  bool is_done(const EventPtr&) override { return true; }
  void drain() noexcept override {}
  void allocated(StreamId, Buffer) override {}
  void freed(Buffer) override {}
  void renamed(Buffer, Buffer) override {}
};

struct DeviceEvent : StreamEvent {
  explicit DeviceEvent(const c10::Stream& stream) : event(stream.device_type()) {
    event.record(stream);
  }
  c10::Event event;
};

const c10::Event& device_event(const EventPtr& event) {
  return static_cast<const DeviceEvent&>(*event).event;
}

class DeviceStreams : public Streams {
 public:
  explicit DeviceStreams(c10::Device device)
      : guard_(device.type()),
        streams_{guard_.getStream(device), guard_.getStreamFromGlobalPool(device, true),
                 guard_.getStreamFromGlobalPool(device, true),
                 guard_.getStreamFromGlobalPool(device, true),
                 guard_.getStreamFromGlobalPool(device, false)} {}

  void run(StreamId stream, const Accesses&, const std::function<void()>& work) override {
    const c10::OptionalStreamGuard on_stream(
        stream == StreamId::kHost ? std::nullopt : std::optional(get(stream)));
    work();
  }
  EventPtr record(StreamId stream) override { return std::make_shared<DeviceEvent>(get(stream)); }
  void block(StreamId stream, const EventPtr& event) override {
    if (stream == StreamId::kHost) {
      // The optimizer's thread has no current device yet.
      guard_.setDevice(get(StreamId::kCompute).device());
      device_event(event).synchronize();
    } else {
      device_event(event).block(get(stream));
    }
  }
  bool is_done(const EventPtr& event) override { return device_event(event).query(); }
  void drain() noexcept override {
    for (const c10::Stream& stream : streams_) {
      try {
        stream.synchronize();
      } catch (const std::exception&) {  // the device has failed: nothing runs there any more
      }
    }
  }
  void allocated(StreamId, Buffer) override {}
  void freed(Buffer) override {}
  void renamed(Buffer, Buffer) override {}

 private:
  const c10::Stream& get(StreamId stream) const { return streams_.at(static_cast<size_t>(stream)); }

  c10::impl::VirtualGuardImpl guard_;
  std::array<c10::Stream, 5> streams_;
};

// A point in the work of the optimizer's thread.
struct WorkerEvent : StreamEvent {
  explicit WorkerEvent(std::shared_future<void> reached) : done(std::move(reached)) {}
  std::shared_future<void> done;
};

// Adds the optimizer's thread, which starts with its first work.
class StreamsWithOptimizer : public Streams {
 public:
  explicit StreamsWithOptimizer(std::unique_ptr<Streams> streams) : streams_(std::move(streams)) {}

  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override {
    if (stream == StreamId::kOptimizer) {
      worker().post(work);
    } else {
      streams_->run(stream, accesses, work);
    }
  }
  EventPtr record(StreamId stream) override {
    if (stream != StreamId::kOptimizer) return streams_->record(stream);
    return std::make_shared<WorkerEvent>(worker().post([] {}));
  }
  void block(StreamId stream, const EventPtr& event) override {
    if (const auto* on_worker = dynamic_cast<const WorkerEvent*>(event.get())) {
      if (stream != StreamId::kOptimizer) on_worker->done.get();
    } else if (stream == StreamId::kOptimizer) {
      worker().post([this, event] { streams_->block(StreamId::kHost, event); });
    } else {
      streams_->block(stream, event);
    }
  }
  bool is_done(const EventPtr& event) override { return streams_->is_done(event); }
  void drain() noexcept override {
    if (worker_) worker_->drain();
    streams_->drain();
  }
  void allocated(StreamId, Buffer) override {}
  void freed(Buffer) override {}
  void renamed(Buffer, Buffer) override {}

 private:
  Worker& worker() { return worker_ ? *worker_ : worker_.emplace(); }

  std::unique_ptr<Streams> streams_;
  std::optional<Worker> worker_;  // ends before the streams do
};

}  // namespace

std::unique_ptr<Streams> make_streams(c10::Device device) {
  std::unique_ptr<Streams> streams;
  if (device.is_cpu() || device.is_meta()) {
    streams = std::make_unique<HostStreams>();
  } else {
    streams = std::make_unique<DeviceStreams>(device);
  }
  return std::make_unique<StreamsWithOptimizer>(std::move(streams));
}

}  // namespace fsdp
