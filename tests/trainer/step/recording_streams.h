#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "trainer/backend/streams.h"

namespace fsdp {

inline constexpr const char* kStreamNames[] = {"compute", "gather",    "reduce", "replicate",
                                               "copy",    "optimizer", "host"};
inline constexpr const char* kBufferNames[] = {
    "parameters",    "whole",           "released whole", "gradient",      "reduction input",
    "reduced shard", "converted shard", "gradient shard", "host gradient", "host parameters"};

// Return names for messages.
inline std::string name(Buffer buffer) {
  return std::string(kBufferNames[static_cast<int>(buffer.kind)]) + " " +
         std::to_string(buffer.unit);
}

inline const char* name(StreamId stream) { return kStreamNames[static_cast<int>(stream)]; }

// Does the work at once. Keeps a vector clock per stream: how much work of the other streams the
// stream has waited for. Collects every access that a GPU could do too early:
//   - a read or write that has not waited for the buffer's last write,
//   - a write that has not waited for a read,
//   - a use of a buffer that was given back,
//   - a buffer given back while its pool's stream has not waited for its users.
class RecordingStreams : public Streams {
 public:
  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override;
  EventPtr record(StreamId stream) override;
  void block(StreamId stream, const EventPtr& event) override;
  // The host sees that the event has passed, unless the device is behind.
  bool is_done(const EventPtr& event) override;
  void drain() noexcept override {}
  void allocated(StreamId pool, Buffer buffer) override;
  void freed(Buffer buffer) override;
  void renamed(Buffer from, Buffer to) override;

  // True if the device lags: is_done() is then false.
  bool is_device_behind = false;

  // One line per hazard; empty when the order is right.
  const std::vector<std::string>& hazards() const { return hazards_; }
  // The number of a kind's buffers that are allocated now, and the most at any time.
  int live(BufferKind kind) const { return count(live_, kind); }
  int live_max(BufferKind kind) const { return count(live_max_, kind); }
  // Every run() in order, such as "gather: whole 3": the stream and the first buffer written. The
  // first buffer read if none is written.
  const std::vector<std::string>& log() const { return log_; }

 protected:
  void note(const std::string& line) { log_.push_back(line); }
  // The stream that recorded the event.
  static StreamId stream_of(const EventPtr& event) {
    return static_cast<const Event&>(*event).stream;
  }

 private:
  static constexpr size_t kStreamCount = 7;
  using Clock = std::array<int, kStreamCount>;
  struct Use {
    StreamId stream;
    int time;
  };
  struct State {
    std::vector<Use> writes;  // the last one
    std::vector<Use> reads;   // since the last write
    StreamId pool = StreamId::kCompute;
    bool is_freed = false;
  };
  struct Event : StreamEvent {
    StreamId stream;
    Clock clock;
  };

  static int count(const std::map<BufferKind, int>& counts, BufferKind kind) {
    const auto found = counts.find(kind);
    return found == counts.end() ? 0 : found->second;
  }
  bool has_seen(StreamId stream, const Use& use) const;
  // All work that the host did or waited for comes before its next operation on the stream.
  void follow_host(StreamId stream);
  void check(StreamId stream, const std::vector<Use>& uses, Buffer buffer, const char* what);

  std::array<Clock, kStreamCount> clocks_{};
  std::map<Buffer, State> buffers_;
  std::map<BufferKind, int> live_;
  std::map<BufferKind, int> live_max_;
  std::vector<std::string> hazards_;
  std::vector<std::string> log_;
};

inline bool RecordingStreams::has_seen(StreamId stream, const Use& use) const {
  return clocks_[static_cast<size_t>(stream)][static_cast<size_t>(use.stream)] >= use.time;
}

inline void RecordingStreams::check(StreamId stream, const std::vector<Use>& uses, Buffer buffer,
                                    const char* what) {
  for (const Use& use : uses) {
    if (!has_seen(stream, use)) {
      hazards_.push_back(std::string(name(stream)) + " " + what + " " + name(buffer) +
                         " without waiting for " + name(use.stream));
    }
  }
}

inline void RecordingStreams::run(StreamId stream, const Accesses& accesses,
                                  const std::function<void()>& work) {
  follow_host(stream);
  const Use now{stream, ++clocks_[static_cast<size_t>(stream)][static_cast<size_t>(stream)]};

  for (const Buffer& buffer : accesses.reads) {
    State& state = buffers_[buffer];
    if (state.is_freed) hazards_.push_back("use of freed " + name(buffer));
    check(stream, state.writes, buffer, "reads");
    state.reads.push_back(now);
  }
  for (const Buffer& buffer : accesses.writes) {
    State& state = buffers_[buffer];
    if (state.is_freed) hazards_.push_back("use of freed " + name(buffer));
    check(stream, state.writes, buffer, "writes");
    check(stream, state.reads, buffer, "writes");
    state.writes = {now};
    state.reads.clear();
  }
  const auto& shown = accesses.writes.size() ? accesses.writes : accesses.reads;
  log_.push_back(std::string(name(stream)) + ": " + (shown.size() ? name(*shown.begin()) : ""));
  work();
}

inline void RecordingStreams::follow_host(StreamId stream) {
  Clock& clock = clocks_[static_cast<size_t>(stream)];
  const Clock& host = clocks_[static_cast<size_t>(StreamId::kHost)];
  for (size_t i = 0; i < kStreamCount; ++i) clock[i] = std::max(clock[i], host[i]);
}

inline bool RecordingStreams::is_done(const EventPtr& event) {
  if (is_device_behind) return false;
  RecordingStreams::block(StreamId::kHost, event);
  return true;
}

inline EventPtr RecordingStreams::record(StreamId stream) {
  auto event = std::make_shared<Event>();
  event->stream = stream;
  event->clock = clocks_[static_cast<size_t>(stream)];
  return event;
}

inline void RecordingStreams::block(StreamId stream, const EventPtr& event) {
  Clock& clock = clocks_[static_cast<size_t>(stream)];
  const Clock& seen = static_cast<const Event&>(*event).clock;
  for (size_t i = 0; i < kStreamCount; ++i) clock[i] = std::max(clock[i], seen[i]);
}

inline void RecordingStreams::allocated(StreamId pool, Buffer buffer) {
  buffers_[buffer] = State{.writes = {}, .reads = {}, .pool = pool, .is_freed = false};
  live_max_[buffer.kind] = std::max(live_max_[buffer.kind], ++live_[buffer.kind]);
}

inline void RecordingStreams::freed(Buffer buffer) {
  State& state = buffers_[buffer];
  if (state.is_freed) hazards_.push_back("second free of " + name(buffer));
  follow_host(state.pool);
  check(state.pool, state.writes, buffer, "may reuse");
  check(state.pool, state.reads, buffer, "may reuse");
  state.is_freed = true;
  --live_[buffer.kind];
}

inline void RecordingStreams::renamed(Buffer from, Buffer to) {
  buffers_[to] = buffers_[from];
  buffers_[from].is_freed = true;
  --live_[from.kind];
  live_max_[to.kind] = std::max(live_max_[to.kind], ++live_[to.kind]);
}

}  // namespace fsdp
