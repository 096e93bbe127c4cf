#include "runner/sweep/stop_signals.h"

#include <algorithm>

namespace fsdp {

StopSignals::StopSignals(std::initializer_list<int> signals) {
  sigemptyset(&signals_);
  for (const int signal_number : signals) {
    struct sigaction action {};
    sigaction(signal_number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals_, signal_number);
  }
  sigprocmask(SIG_BLOCK, &signals_, &previous_mask_);
}

StopSignals::~StopSignals() {
  while (take() != 0) {  // one that came too late must not end the program now
  }
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

int StopSignals::take() {
  constexpr timespec kNoWait{};
  return std::max(sigtimedwait(&signals_, nullptr, &kNoWait), 0);
}

}  // namespace fsdp
