#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <initializer_list>
#include <memory>

// The order of device work: streams, events and their accesses to buffers.
//
// Everything asynchronous in the schedule uses this interface. A recording double can therefore
// prove two rules without a GPU. Every buffer is written before another stream reads it. It is
// given back only when its pool's stream has waited for its readers.
namespace fsdp {

enum class StreamId {
  kCompute,    // the current stream: modules and the optimizer
  kGather,     // parameters are gathered
  kReduce,     // gradients are reduced to shards
  kReplicate,  // gradients are summed over replicas
  kCopy,       // transfers to and from the host
  kOptimizer,  // a thread of the host: the optimizer when its state lives there
  kHost,       // the calling thread; its work precedes anything it issues later
};

enum class BufferKind {
  kParameters,      // this rank's part of a unit's parameters
  kWhole,           // a unit's parameters, gathered
  kReleased,        // a unit's gathered parameters, kept until their last reader is done
  kGradient,        // a unit's gradient, as its backward writes it
  kReductionInput,  // a unit's gradient in the reduction dtype
  kReducedShard,    // this rank's part of a reduced gradient of one micro-batch
  kConvertedShard,  // a reduced shard in another dtype
  kGradientShard,   // the sum of reduced shards over micro-batches
  kHostGradient,    // the step's gradient in CPU memory
  kHostParameters,  // the parameters that the CPU steps
};

// A buffer of one unit.
struct Buffer {
  BufferKind kind;
  int unit;
  auto operator<=>(const Buffer&) const = default;
};

struct Accesses {
  std::initializer_list<Buffer> reads;
  std::initializer_list<Buffer> writes;
};

class StreamEvent {
 public:
  virtual ~StreamEvent() = default;
};
using EventPtr = std::shared_ptr<StreamEvent>;

class Streams {
 public:
  virtual ~Streams() = default;

  // Calls `work`. Its device work goes to `stream` and accesses the buffers of `accesses`.
  virtual void run(StreamId stream, const Accesses& accesses,
                   const std::function<void()>& work) = 0;
  // Returns a point in `stream` (not kHost): the end of everything run on it so far.
  virtual EventPtr record(StreamId stream) = 0;
  // Makes later work on `stream` wait for `event`; kHost waits now. On kHost, it rethrows what
  // kOptimizer's work has thrown. Only kHost and kOptimizer wait for events of kOptimizer.
  virtual void block(StreamId stream, const EventPtr& event) = 0;
  // True if everything before the event is done; does not wait. The event is of a device's stream.
  virtual bool is_done(const EventPtr& event) = 0;
  // Returns when everything run so far is done or has failed, on every stream. Destructors call it
  // before they free what the work uses.
  virtual void drain() noexcept = 0;

  // Called when a buffer is taken from, or given back to, the memory pool of a stream.
  virtual void allocated(StreamId pool, Buffer buffer) = 0;
  virtual void freed(Buffer buffer) = 0;
  // Called when a buffer gets another name.
  virtual void renamed(Buffer from, Buffer to) = 0;

  // Call it after `reader` has read a buffer from the pool of `owner`. `owner` then waits for the
  // read before it reuses the buffer.
  void order(StreamId reader, StreamId owner) { block(owner, record(reader)); }
};

// Makes the streams of a device. On a GPU, kCompute is the current stream, and the streams of
// collectives have high priority. On the CPU and on meta, all work except kOptimizer's is done when
// `run` returns.
std::unique_ptr<Streams> make_streams(c10::Device device);

}  // namespace fsdp
