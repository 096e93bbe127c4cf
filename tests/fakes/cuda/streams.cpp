// Streams and events of fake GPUs. Work is done when it is issued, except conditions that it waits
// for. A handle is valid from its creation until it is destroyed.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "tests/fakes/cuda/state.h"

namespace {

using fsdp::fake_cuda::current_device;
using fsdp::fake_cuda::failed;
using fsdp::fake_cuda::host_clock;
using fsdp::fake_cuda::merge;

using Condition = std::function<bool()>;
using Conditions = std::set<std::shared_ptr<Condition>>;  // shared, as streams wait for each other

std::mutex stream_mutex;

}  // namespace

struct CUstream_st {
  int number;
  int device;
  Conditions conditions{};
  fsdp::fake_cuda::Clock clock{};
};
struct CUevent_st {
  int device;
  bool is_timed;
  int stream = 0;
  bool is_recorded = false;
  Conditions conditions{};
  fsdp::fake_cuda::Clock clock{};
  std::chrono::steady_clock::time_point recorded{};
};

namespace {

// All streams and events that were created. They outlive libtorch, which destroys some at exit.
std::set<CUstream_st*>& streams = *new std::set<CUstream_st*>;
std::set<CUevent_st*>& events = *new std::set<CUevent_st*>;
std::set<fsdp::fake_cuda::Wait> waits_done;
std::optional<fsdp::fake_cuda::Wait> left_out;

CUstream_st* new_stream() {
  static int made = 0;
  return new CUstream_st{.number = made++, .device = current_device()};
}

// Returns the current device's default stream.
CUstream_st* default_stream() {
  static std::map<int, CUstream_st*> of_devices;
  CUstream_st*& found = of_devices[current_device()];
  if (found == nullptr) found = new_stream();
  return found;
}

// Returns null for a handle that is none. The caller holds the mutex.
CUstream_st* find(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    return default_stream();
  }
  return streams.contains(stream) ? stream : nullptr;
}

CUevent_st* find(cudaEvent_t event) { return events.contains(event) ? event : nullptr; }

bool is_done(Conditions& conditions) {
  std::erase_if(conditions, [](const std::shared_ptr<Condition>& is_met) { return (*is_met)(); });
  return conditions.empty();
}

template <typename Handle>
cudaError_t query(Handle handle) {
  const std::lock_guard lock(stream_mutex);
  const auto found = find(handle);
  if (found == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (!is_done(found->conditions)) return cudaErrorNotReady;
  merge(host_clock(), found->clock);
  return cudaSuccess;
}

template <typename Handle>
cudaError_t synchronize(Handle handle) {
  using std::chrono::microseconds;
  cudaError_t error = cudaSuccess;
  for (microseconds pause(20); (error = query(handle)) == cudaErrorNotReady;) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(1000));
  }
  return error;
}

}  // namespace

namespace fsdp::fake_cuda {

void wait_for(cudaStream_t stream, std::function<bool()> is_done) {
  const std::lock_guard lock(stream_mutex);
  find(stream)->conditions.insert(std::make_shared<Condition>(std::move(is_done)));
}

std::set<Wait> take_waits() {
  const std::lock_guard lock(stream_mutex);
  return std::exchange(waits_done, {});
}

void leave_out(std::optional<Wait> wait) {
  const std::lock_guard lock(stream_mutex);
  left_out = wait;
}

std::pair<int, Clock> tick(cudaStream_t stream) {
  const std::lock_guard lock(stream_mutex);
  CUstream_st& ticking = *find(stream);
  merge(ticking.clock, host_clock());
  const auto number = static_cast<size_t>(ticking.number);
  ticking.clock.resize(std::max(ticking.clock.size(), number + 1));
  ++ticking.clock[number];
  return {ticking.number, ticking.clock};
}

std::optional<int> device_of(cudaStream_t stream) {
  const std::lock_guard lock(stream_mutex);
  const CUstream_st* found = find(stream);
  return found == nullptr ? std::nullopt : std::optional(found->device);
}

}  // namespace fsdp::fake_cuda

extern "C" {

cudaError_t cudaDeviceSynchronize() {
  std::unique_lock lock(stream_mutex);
  std::set<CUstream_st*> all = streams;
  lock.unlock();
  std::erase_if(all, [](const CUstream_st* stream) { return stream->device != current_device(); });
  for (CUstream_st* stream : all) synchronize(cudaStream_t{stream});
  return synchronize(cudaStream_t{});
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return failed(cudaErrorInvalidValue);
  }
  const std::lock_guard lock(stream_mutex);
  default_stream();  // has the lower number
  streams.insert(*stream = new_stream());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(stream_mutex);
  if (streams.erase(stream) == 0) return failed(cudaErrorInvalidResourceHandle);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return query(stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return synchronize(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  const std::lock_guard lock(stream_mutex);
  CUstream_st* const waiting = find(stream);
  if (waiting == nullptr || find(event) == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (flags > cudaEventWaitExternal) return failed(cudaErrorInvalidValue);
  if (!event->is_recorded) return cudaSuccess;
  const fsdp::fake_cuda::Wait wait{event->stream, waiting->number};
  if (wait.first != wait.second) waits_done.insert(wait);
  if (wait == left_out) return cudaSuccess;
  merge(waiting->clock, event->clock);
  if (is_done(event->conditions)) return cudaSuccess;
  waiting->conditions.insert(event->conditions.begin(), event->conditions.end());
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int flags) {
  if (!fsdp::fake_cuda::device_of(stream)) return failed(cudaErrorInvalidResourceHandle);
  if (callback == nullptr || flags != 0) return failed(cudaErrorInvalidValue);
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (!fsdp::fake_cuda::device_of(stream)) return failed(cudaErrorInvalidResourceHandle);
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
#if CUDART_VERSION >= 13000
                                     const cudaGraphEdgeData**,
#endif
                                     size_t*) {
  return cudaStreamIsCapturing(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  constexpr unsigned int kKnown =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  const bool is_timed = (flags & cudaEventDisableTiming) == 0;
  const bool is_shared = (flags & cudaEventInterprocess) != 0;
  if (event == nullptr || (flags & ~kKnown) != 0 || (is_shared && is_timed)) {
    return failed(cudaErrorInvalidValue);
  }
  const std::lock_guard lock(stream_mutex);
  events.insert(*event = new CUevent_st{.device = current_device(), .is_timed = is_timed});
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(stream_mutex);
  if (events.erase(event) == 0) return failed(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  const std::lock_guard lock(stream_mutex);
  CUstream_st* const recording = find(stream);
  if (find(event) == nullptr || recording == nullptr || recording->device != event->device) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  if (flags > cudaEventRecordExternal) return failed(cudaErrorInvalidValue);
  is_done(recording->conditions);
  event->is_recorded = true;
  event->conditions = recording->conditions;
  event->clock = recording->clock;
  event->stream = recording->number;
  event->recorded = std::chrono::steady_clock::now();
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return query(event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return synchronize(event); }

cudaError_t cudaEventElapsedTime(float* time_ms, cudaEvent_t from, cudaEvent_t to) {
  const std::lock_guard lock(stream_mutex);
  for (const cudaEvent_t event : {from, to}) {
    if (find(event) == nullptr || !event->is_timed || !event->is_recorded) {
      return failed(cudaErrorInvalidResourceHandle);
    }
  }
  if (from->device != to->device) return failed(cudaErrorInvalidResourceHandle);
  if (!is_done(from->conditions) || !is_done(to->conditions)) return failed(cudaErrorNotReady);
  *time_ms = std::chrono::duration<float, std::milli>(to->recorded - from->recorded).count();
  return cudaSuccess;
}

}  // extern "C"
