#include "runner/sweep/stop_signals.h"

#include <initializer_list>

namespace fsdp {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal_number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals_, signal_number);
  }
  sigprocmask(SIG_BLOCK, &signals_, &previous_mask_);
}

StopSignals::~StopSignals() {
  while (take()) {  // one that came too late must not end the program now
  }
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

bool StopSignals::take() {
  constexpr timespec kNoWait{};
  return sigtimedwait(&signals_, nullptr, &kNoWait) > 0;
}

}  // namespace fsdp
