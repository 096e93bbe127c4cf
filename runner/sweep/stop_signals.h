#pragma once

#include <signal.h>

#include <chrono>

namespace fsdp {

// Blocks the signals by which users and batch systems ask to stop, so the program takes them at
// points of its choosing. Signals that this process ignores, as under nohup, stay ignored. After an
// error the signals stay blocked while the program reports it and ends.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns a signal that has arrived or arrives within `patience`. Returns 0 if there is none.
  int take(std::chrono::milliseconds patience = {});

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

}  // namespace fsdp
