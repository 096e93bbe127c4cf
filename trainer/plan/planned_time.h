#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/streams.h"
#include "trainer/backend/work.h"
#include "trainer/comm/process_group.h"
#include "trainer/plan/work_times.h"

namespace fsdp {

// The clocks of the streams of a step that is planned: work that a stream is given takes the time
// that was measured, and streams wait for each other as on the device that is planned for. There
// the calling thread is ahead of them all. On a CPU it does itself what every stream is given;
// collectives and the optimizer take its time too, as their threads have no core of their own.
class PlannedTime : public WorkObserver {
 public:
  PlannedTime(WorkTimes times, c10::DeviceType planned_for);

  void begin(const Work& work) override;
  void end() override {}

  // Work of a group, which does one piece after the other; `free_ms`: when it is free, and then
  // will be.
  void collective(const Work& work, double& free_ms);

  // What is done now is done by this stream.
  void enter(StreamId stream) { current_ = stream; }
  StreamId current() const { return current_; }
  double time_ms(StreamId stream) { return clock(stream); }
  void block(StreamId stream, double until_ms);

  // When all streams have done what they were given.
  double end_ms() const;
  // For how long compute, or the thread that does its work, has waited for others.
  double waited_ms() const { return waited_ms_; }
  // Names of work that nothing is known of.
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  static constexpr size_t kStreams = static_cast<size_t>(StreamId::kHost) + 1;

  double duration_ms(const Work& work);
  double begin_ms();
  double& clock(StreamId stream);

  WorkTimes times_;
  bool is_on_cpu_;
  StreamId current_ = StreamId::kCompute;
  std::array<double, kStreams> clocks_ms_{};
  double waited_ms_ = 0;
  std::vector<std::string> unknown_;
};

// Streams whose order is kept on `time`, which outlives them. All work is done when `run` returns,
// the optimizer's too.
std::unique_ptr<Streams> planned_streams(PlannedTime& time);

// `size` equal ranks seen by one of them (see MirrorGroup), whose collectives take `time`, which
// outlives it.
std::unique_ptr<ProcessGroup> planned_group(int size, PlannedTime& time);

// A collective of `ranks` ranks on `bytes`, of all of them together.
Work collective_work(const char* name, int ranks, int64_t bytes);

}  // namespace fsdp
