#pragma once

#include <signal.h>

namespace fsdp {

// Holds back SIGINT, SIGTERM and SIGHUP (those that this process does not ignore, as under nohup)
// so that they are taken at a point of our choosing.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Whether one has arrived since the last call.
  bool take();

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

}  // namespace fsdp
