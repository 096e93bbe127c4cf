#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/record/step_trace.h"
#include "trainer/backend/streams.h"
#include "trainer/comm/process_group.h"
#include "trainer/kernels/work.h"
#include "trainer/memory/memory_label.h"
#include "trainer/plan/work_times.h"

namespace fsdp {

// The clocks of the streams of a planned step. Work on a stream takes its measured time, and
// streams wait for each other as on the planned device. On a GPU the calling thread is ahead of all
// streams. On a CPU the calling thread does the work of every stream itself. Collectives and the
// optimizer also take its time, because their threads share its cores.
class PlannedTime : public WorkObserver {
 public:
  PlannedTime(WorkTimes times, c10::DeviceType planned_for);

  void begin(const Work& work) override;
  void end() override;

  // Adds a collective of a unit. A group does one collective after the other. `free_ms` is the time
  // at which the group is free, and is updated.
  void collective(const Work& work, int unit, double& free_ms);

  // Says that `stream` does the work from now on.
  void enter(StreamId stream) { current_ = stream; }
  StreamId current() const { return current_; }
  double time_ms(StreamId stream) { return clock(stream); }
  void block(StreamId stream, double until_ms);

  // The time at which all streams have done their work.
  double end_ms() const;
  // How long the compute stream has waited for other streams; on a CPU, how long the calling thread
  // has waited.
  double waited_ms() const { return waited_ms_; }
  // Returns the time of the compute stream so far, by the parts of a run's StepAccounts. Modules
  // are calibrated as a whole, so their products and attention are among their other kernels.
  const TimeByPart& parts() const { return parts_; }
  // Keeps each piece of work from now on.
  void begin_trace();
  // Returns the pieces since begin_trace(), as a run's StepTrace has them.
  const std::vector<TraceSpan>& trace() const { return trace_; }
  // Names of work without a measured time.
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  // A piece of work that has begun, and not ended.
  struct UnderWay {
    TimePart part;
    std::string name;
    double began_ms;
  };
  static constexpr size_t kStreams = static_cast<size_t>(StreamId::kHost) + 1;

  double duration_ms(const Work& work);
  double begin_ms();
  // Lets the stream's time until `until_ms` be spent on `part`. Returns this time; 0 if it is over.
  double advance(StreamId stream, double until_ms, TimePart part);
  bool is_compute(StreamId stream) { return &clock(stream) == &clock(StreamId::kCompute); }
  TimePart part_under_way() const;
  double& clock(StreamId stream);
  void add_span(SpanKind kind, std::string_view name, double begin_ms, double end_ms,
                int unit = MemoryScope::current().unit, int64_t bytes = 0);

  WorkTimes times_;
  bool is_on_cpu_;
  StreamId current_ = StreamId::kCompute;
  std::array<double, kStreams> clocks_ms_{};
  double waited_ms_ = 0;
  TimeByPart parts_;
  std::vector<UnderWay> under_way_;       // innermost last
  std::optional<double> trace_begin_ms_;  // nullopt: no trace is kept
  std::vector<TraceSpan> trace_;
  TimePart host_waited_for_ = TimePart::kOther;  // why a GPU has nothing to do
  std::vector<std::string> unknown_;
};

// Returns streams that advance the clocks of `time`, which outlives them. When `run` returns, all
// work is done, including the optimizer's.
std::unique_ptr<Streams> planned_streams(PlannedTime& time);

// Returns a group of `size` equal ranks, seen by one of them (see MirrorGroup). Its collectives
// advance the clocks of `time`, which outlives the group.
std::unique_ptr<ProcessGroup> planned_group(int size, PlannedTime& time);

// Returns the work of a collective of `ranks` ranks. `bytes` is the size of the whole tensor, not
// of one rank's shard.
Work collective_work(const char* name, int ranks, int64_t bytes);

}  // namespace fsdp
