#include "tests/trainer/step/recording_streams.h"

#include <algorithm>

namespace fsdp {
namespace {

constexpr const char* kStreamNames[] = {"compute", "gather",    "reduce", "replicate",
                                        "copy",    "optimizer", "host"};
constexpr const char* kBufferNames[] = {
    "parameters",    "whole",           "released whole", "gradient",      "reduction input",
    "reduced shard", "converted shard", "gradient shard", "host gradient", "host parameters"};

std::string name(Buffer buffer) {
  return std::string(kBufferNames[static_cast<int>(buffer.kind)]) + " " +
         std::to_string(buffer.unit);
}

const char* name(StreamId stream) { return kStreamNames[static_cast<int>(stream)]; }

}  // namespace

bool RecordingStreams::has_seen(StreamId stream, const Use& use) const {
  return clocks_[static_cast<size_t>(stream)][static_cast<size_t>(use.stream)] >= use.time;
}

void RecordingStreams::check(StreamId stream, const std::vector<Use>& uses, Buffer buffer,
                             const char* what) {
  for (const Use& use : uses) {
    if (!has_seen(stream, use)) {
      hazards_.push_back(std::string(name(stream)) + " " + what + " " + name(buffer) +
                         " without waiting for " + name(use.stream));
    }
  }
}

void RecordingStreams::run(StreamId stream, const Accesses& accesses,
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

void RecordingStreams::follow_host(StreamId stream) {
  Clock& clock = clocks_[static_cast<size_t>(stream)];
  const Clock& host = clocks_[static_cast<size_t>(StreamId::kHost)];
  for (size_t i = 0; i < kStreamCount; ++i) clock[i] = std::max(clock[i], host[i]);
}

bool RecordingStreams::is_done(const EventPtr& event) {
  if (is_device_behind) return false;
  RecordingStreams::block(StreamId::kHost, event);
  return true;
}

EventPtr RecordingStreams::record(StreamId stream) {
  auto event = std::make_shared<Event>();
  event->clock = clocks_[static_cast<size_t>(stream)];
  return event;
}

void RecordingStreams::block(StreamId stream, const EventPtr& event) {
  Clock& clock = clocks_[static_cast<size_t>(stream)];
  const Clock& seen = static_cast<const Event&>(*event).clock;
  for (size_t i = 0; i < kStreamCount; ++i) clock[i] = std::max(clock[i], seen[i]);
}

void RecordingStreams::allocated(StreamId pool, Buffer buffer) {
  buffers_[buffer] = State{.writes = {}, .reads = {}, .pool = pool, .is_freed = false};
  live_max_[buffer.kind] = std::max(live_max_[buffer.kind], ++live_[buffer.kind]);
}

void RecordingStreams::freed(Buffer buffer) {
  State& state = buffers_[buffer];
  if (state.is_freed) hazards_.push_back("second free of " + name(buffer));
  follow_host(state.pool);
  check(state.pool, state.writes, buffer, "may reuse");
  check(state.pool, state.reads, buffer, "may reuse");
  state.is_freed = true;
  --live_[buffer.kind];
}

void RecordingStreams::renamed(Buffer from, Buffer to) {
  buffers_[to] = buffers_[from];
  buffers_[from].is_freed = true;
  --live_[from.kind];
  live_max_[to.kind] = std::max(live_max_[to.kind], ++live_[to.kind]);
}

}  // namespace fsdp
