#pragma once

#include <signal.h>

#include <initializer_list>

namespace fsdp {

// Holds back signals that ask to stop (but those that this process ignores, as under nohup) so that
// they are taken at a point of our choosing.
class StopSignals {
 public:
  explicit StopSignals(std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // One that has arrived and was not taken yet; 0: none.
  int take();

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

}  // namespace fsdp
