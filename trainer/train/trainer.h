#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "contract/record/event.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/step_clock.h"
#include "trainer/comm/process_group.h"
#include "trainer/data/batches.h"
#include "trainer/data/data_sets.h"
#include "trainer/step/training_step.h"
#include "trainer/train/checkpoints.h"
#include "trainer/train/cpu_meter.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/frozen_digest.h"
#include "trainer/train/memory_trace.h"
#include "trainer/train/resume.h"
#include "trainer/train/schedule.h"
#include "trainer/train/step_accounts.h"

namespace fsdp {

// One rank of one run: training steps with their data, events, evaluations, checkpoints and end.
class Trainer {
 public:
  // Reads the inputs and this rank's part of the weights. Throws ConfigError if they do not fit.
  // The attempt with this number ends before a checkpoint if a later one of the run has begun.
  // `backend`, `group` and `events` outlive the trainer.
  Trainer(const RunSpec& spec, const RunPaths& paths, int attempt, Backend& backend,
          ProcessGroup& group, EventWriter& events);

  // Fills in the trainer's part of the rank's first event.
  void describe(RunStarted& started) const;
  int64_t steps_planned() const { return steps_planned_; }
  int64_t steps_done() const { return steps_done_; }

  // Trains to the end or until any rank was asked to stop (see stop_signal.h). Reports each step,
  // evaluation and checkpoint, and the steps' use of the CPUs. Returns the number of steps done.
  // Throws std::runtime_error if the loss is not finite, unless the run skips such steps.
  int64_t run();

 private:
  // A step whose figures the device may still be computing.
  struct Report {
    StepDone event;
    at::Tensor statistics;  // on the host: loss, votes to stop, gradient norm, is skipped
    CommunicationClock::Operations communication;
    std::unique_ptr<StepClock::Mark> end;
    std::optional<StepAccounts::Step> account;
  };
  Report do_step(int64_t step);
  // Writes the FLOPs of the micro-batches into the event.
  void count_flops(std::span<const Batch> micro_batches, StepDone& event) const;
  void write_report();
  // Writes the fingerprints of the step that has just been done.
  void write_fingerprints(int64_t step);
  // Reports where the time of the accounted steps went. Every rank calls it after the same step.
  void write_accounts();
  // Reports the memory peak since `step` began, if it is a new maximum. Step 0 is the start.
  void report_memory_peak(int64_t step);
  // True if no step follows at once: at the end, and before an evaluation or a checkpoint.
  bool is_last_for_now(int64_t step) const;
  // Does the evaluation and the checkpoint that follow a step.
  void after_step(int64_t step);
  // Returns true if the loss is the best so far.
  bool evaluate(int64_t step);
  void save_checkpoint(int64_t step);
  // Throws std::runtime_error if a later attempt of the run has begun.
  void check_is_newest_attempt() const;
  // Advances the checkpoint that is under way and reports its end. With `waits`, waits for the end.
  void advance_checkpoint(bool waits);

  RunSpec spec_;
  RunPaths paths_;
  int attempt_;
  ModelConfig config_;
  Backend& backend_;
  ProcessGroup& group_;
  EventWriter& events_;
  SharedDigests digests_;
  DataSets data_;
  Sampler sampler_;
  int64_t steps_per_epoch_;
  int64_t steps_planned_;
  Basis basis_;      // of its checkpoints
  Resumed resumed_;  // holds its reader until training begins
  Mesh mesh_;
  FrozenDigest frozen_;
  int64_t weights_read_ = 0;                   // elements that this rank read or made at the start
  std::unique_ptr<MemoryTrace> memory_trace_;  // knows the allocations of members that follow
  std::optional<StepAccounts> accounts_;       // outlives the work of steps
  std::optional<FingerprintRecorder> fingerprints_;
  TrainingStep step_;
  LearningRateSchedule schedule_;
  Evaluation evaluation_;
  Checkpoints checkpoints_;
  StepClock clock_;
  std::unique_ptr<StepClock::Mark> last_mark_;
  std::deque<Report> reports_;
  CpuMeter cpu_meter_;
  int64_t steps_done_ = 0;
  int64_t reported_peak_bytes_ = 0;
  bool stop_ = false;
  bool was_suspended_before_ = false;      // when the last report was written
  std::optional<double> validation_loss_;  // of the current parameters
  std::optional<double> best_validation_loss_;
};

}  // namespace fsdp
