#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <initializer_list>
#include <memory>

// The order of device work: streams, events and what is read and written where.
//
// Everything asynchronous in the schedule goes through this interface, so that a recording double
// can prove the order on a machine without a GPU: every buffer is written before it is read on
// another stream, and is given back only when its pool's stream has waited for its readers.
namespace fsdp {

enum class StreamId {
  kCompute,    // the current stream: modules and the optimizer
  kGather,     // parameters become whole
  kReduce,     // gradients are reduced to shards
  kReplicate,  // gradients are summed over replicas
  kCopy,       // transfers to and from the host
  kOptimizer,  // a thread of the host: the optimizer when its state lives there
  kHost,       // the calling thread; what it does is done before anything it issues afterwards
};

enum class BufferKind {
  kParameters,      // this rank's part of a unit's parameters
  kWhole,           // a unit's parameters, gathered
  kReleased,        // a unit's gathered parameters, kept until their last reader is done
  kGradient,        // a unit's gradient, as its backward writes it
  kReductionInput,  // a unit's gradient in the dtype it is reduced in
  kReducedShard,    // this rank's part of a reduced gradient of one micro-batch
  kConvertedShard,  // a reduced shard in another dtype
  kGradientShard,   // the sum of it over micro-batches
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

  // Calls `work`, whose device work goes to `stream` and touches what `accesses` says.
  virtual void run(StreamId stream, const Accesses& accesses,
                   const std::function<void()>& work) = 0;
  // A point in `stream` (not kHost): everything run on it so far.
  virtual EventPtr record(StreamId stream) = 0;
  // What is run on `stream` from here on waits for `event`; kHost waits now. Rethrows there what
  // kOptimizer's work has thrown. Only kHost and kOptimizer wait for an event of kOptimizer.
  virtual void block(StreamId stream, const EventPtr& event) = 0;
  // Whether what is before the event is done; does not wait. An event of a device's stream.
  virtual bool is_done(const EventPtr& event) = 0;
  // Returns when everything run so far is done or has failed, on every stream. Destructors call it
  // before they free what the work uses.
  virtual void drain() noexcept = 0;

  // Said when a buffer is taken from, and given back to, the memory pool of a stream.
  virtual void allocated(StreamId pool, Buffer buffer) = 0;
  virtual void freed(Buffer buffer) = 0;
  // Said when a buffer goes on under another name.
  virtual void renamed(Buffer from, Buffer to) = 0;

  // `reader` has read a buffer from the pool of `owner`, which must not reuse it earlier.
  void order(StreamId reader, StreamId owner) { block(owner, record(reader)); }
};

// Streams of an accelerator: compute is the current stream, the collectives' have high priority. On
// the CPU and on meta everything but kOptimizer's work is done when `run` returns.
std::unique_ptr<Streams> make_streams(c10::Device device);

}  // namespace fsdp
