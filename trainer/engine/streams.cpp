#include "trainer/engine/streams.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>

namespace fsdp {
namespace {

class DeviceEvent : public StreamEvent {
 public:
  explicit DeviceEvent(const c10::Stream& stream) : event_(stream.device_type()) {
    event_.record(stream);
  }
  const c10::Event& event() const { return event_; }

 private:
  c10::Event event_;
};

const c10::Event& device_event(const EventPtr& event) {
  return static_cast<const DeviceEvent&>(*event).event();
}

class DeviceStreams : public Streams {
 public:
  explicit DeviceStreams(c10::Device device)
      : guard_(device.type()),
        streams_{guard_.getStream(device), guard_.getStreamFromGlobalPool(device, true),
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
      device_event(event).synchronize();
    } else {
      device_event(event).block(get(stream));
    }
  }
  void allocated(StreamId, Buffer) override {}
  void freed(Buffer) override {}
  void renamed(Buffer, Buffer) override {}

 private:
  const c10::Stream& get(StreamId stream) const { return streams_.at(static_cast<size_t>(stream)); }

  c10::impl::VirtualGuardImpl guard_;
  std::array<c10::Stream, 4> streams_;
};

}  // namespace

std::unique_ptr<Streams> make_streams(c10::Device device) {
  if (device.is_cpu()) return std::make_unique<HostStreams>();
  return std::make_unique<DeviceStreams>(device);
}

}  // namespace fsdp
