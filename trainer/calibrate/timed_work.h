#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "contract/plan/calibration.h"
#include "trainer/backend/step_clock.h"
#include "trainer/comm/process_group.h"
#include "trainer/kernels/work.h"

namespace fsdp {

// Times every piece of work in a repeated step. All ranks repeat the step at the same time, because
// ranks that share cores and memory slow each other down.
class TimedWork : public WorkObserver {
 public:
  // `device` is the device of `world`, which outlives the object.
  TimedWork(at::Device device, ProcessGroup& world);

  // Calls `step` often enough to know the times of its pieces. Each call begins when every rank has
  // reached it. If `rest` is given, the time of a step outside its pieces is recorded as work of
  // that name.
  void repeat(const std::function<void()>& step, const char* rest = nullptr);

  // Returns a time for each piece so far: the mean of the middle half of its measurements.
  std::vector<WorkTime> times() const;

  void begin(const Work& work) override;
  void end() override;

 private:
  struct Piece {
    Work work;
    int depth;  // of works under way, itself included
    std::unique_ptr<StepClock::Mark> begin;
    std::unique_ptr<StepClock::Mark> end;
  };

  double milliseconds_of(const std::function<void()>& step);
  // Returns the number of repetitions for a step of `time_ms`. The number is the same on every
  // rank.
  int repetitions(double time_ms);
  // Returns each piece's time on the slowest rank, because the other ranks wait for that rank.
  std::vector<double> slowest(const std::vector<double>& times_ms);
  void add(const Work& work, double time_ms);

  at::Device device_;
  ProcessGroup& world_;
  StepClock clock_;
  std::vector<Piece> pieces_;  // of the step under way
  int depth_ = 0;              // number of works under way
  std::map<std::tuple<std::string, int64_t, int64_t>, std::vector<double>> times_ms_;
};

}  // namespace fsdp
