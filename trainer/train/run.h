#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "trainer/comm/process_group.h"
#include "trainer/contract/event.h"
#include "trainer/contract/exit_code.h"
#include "trainer/train/trainer.h"

namespace fsdp {

// What one rank does from its specification to its last event.
class RankRun {
 public:
  // `attempt` 0: the first number whose folder does not exist, as rank 0 sees it.
  RankRun(std::filesystem::path spec_file, int attempt);
  ~RankRun();

  // Trains; returns kOk or kInterrupted. Throws ConfigError, c10::OutOfMemoryError,
  // CommunicationError, or another std::exception.
  ExitCode run();

  // Writes run_failed, if events could be opened.
  void report_failure(ExitCode code, const std::string& reason);

 private:
  void open_events(int rank);

  std::filesystem::path spec_file_;
  int attempt_;
  std::unique_ptr<EventWriter> events_;
  std::unique_ptr<ProcessGroup> group_;
  // Kept until the process ends: after an error on the device its destructors could throw.
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace fsdp
