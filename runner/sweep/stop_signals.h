#pragma once

#include <signal.h>

#include <chrono>

namespace fsdp {

// Holds back signals that ask to stop, of users and of batch systems (but those that this process
// ignores, as under nohup), so that they are taken at a point of our choosing. After an error they
// stay held back: the program tells the error and ends.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // One that has arrived and was not taken yet, or arrives within `patience`; 0: none.
  int take(std::chrono::milliseconds patience = {});

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

}  // namespace fsdp
