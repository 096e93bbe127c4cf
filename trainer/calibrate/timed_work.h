#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "contract/plan/calibration.h"
#include "trainer/backend/step_clock.h"
#include "trainer/backend/work.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Times every piece of work of what is repeated. All ranks do the same with theirs: computing side
// by side takes longer where they share cores and memory.
class TimedWork : public WorkObserver {
 public:
  // Both outlive it. `device` is the group's.
  TimedWork(at::Device device, ProcessGroup& world);

  // Calls `step` often enough to know how long its pieces take; each call begins when every rank
  // has come to it. What of a step is no piece of work is work of the name `rest`, if there is one.
  void repeat(const std::function<void()>& step, const char* rest = nullptr);

  // Of each work so far, the mean of the half of its times in the middle.
  std::vector<WorkTime> times() const;

  void begin(const Work& work) override;
  void end() override;

 private:
  struct Piece {
    Work work;
    std::unique_ptr<StepClock::Mark> begin;
    std::unique_ptr<StepClock::Mark> end;
  };

  double milliseconds_of(const std::function<void()>& step);
  // How often, the same on every rank.
  int repetitions(double time_ms);
  // Of each piece the slowest rank's: others wait for it.
  std::vector<double> slowest(const std::vector<double>& times_ms);
  void add(const Work& work, double time_ms);

  at::Device device_;
  ProcessGroup& world_;
  StepClock clock_;
  std::vector<Piece> pieces_;  // of the step under way
  std::map<std::tuple<std::string, int64_t, int64_t>, std::vector<double>> times_ms_;
};

}  // namespace fsdp
