#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "contract/record/event.h"
#include "contract/record/exit_code.h"
#include "trainer/comm/process_group.h"
#include "trainer/train/device_samples.h"
#include "trainer/train/trainer.h"

namespace fsdp {

// Does one rank's work from its specification to its last event.
class RankRun {
 public:
  // `attempt` 0 stands for the first number without a folder, as rank 0 sees it.
  RankRun(std::filesystem::path spec_file, int attempt);
  ~RankRun();

  // Trains; returns kOk or kInterrupted. Throws ConfigError, c10::OutOfMemoryError,
  // CommunicationError, or another std::exception. If an operation between ranks exceeds
  // communication.timeout_s, the process ends with kCommunication.
  ExitCode run();
  // Times the pieces of the run's steps for plans, without training (see
  // contract/plan/calibration.h). Throws as run() does.
  ExitCode calibrate(const std::filesystem::path& results, int rounds);

  // Prints the answer of the run's newest checkpoint to a prompt (see sample.h), as one rank on a
  // device of this kind. Throws as run() does.
  ExitCode sample(const std::string& prompt, int64_t tokens, DeviceKind device);

  // Tells the other ranks if this one fails, once they have met.
  FailureNotice& failure_notice() { return failure_notice_; }

  // Ends the process. Says on stderr why the run failed, tells the other ranks, and writes
  // run_failed if events could be opened. If another rank failed first, a communication error is
  // reported as that rank's failure. May be called from any thread; the first call counts.
  [[noreturn]] void fail(ExitCode code, const std::string& reason);

 private:
  struct Rank {
    RunSpec spec;
    WorldEnvironment world;
    at::Device device = at::kCPU;
    std::string bound_cpus;
  };
  // Starts the rank: reads the run, opens the device and connects the ranks. With `alone_on`, this
  // process is the only rank, on a device of that kind.
  Rank start(std::optional<DeviceKind> alone_on = {});
  void open_events(int rank);
  void report_failure(ExitCode code, const std::string& reason);
  void meet_other_ranks(const RunSpec& spec, const WorldEnvironment& world, at::Device device);

  std::filesystem::path spec_file_;
  int attempt_;
  std::recursive_mutex failing_;  // held from the first fail() on
  bool is_failing_ = false;
  FailureNotice failure_notice_;
  std::mutex events_mutex_;  // guards the pointer events_
  std::unique_ptr<EventWriter> events_;
  // Kept until the process ends: after an error on the device, destructors could throw or hang.
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<DeviceSampler> device_sampler_;
};

}  // namespace fsdp
