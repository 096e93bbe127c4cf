#include "runner/sweep/stop_signals.h"

#include <algorithm>
#include <exception>

namespace fsdp {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    sigaction(signal_number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals_, signal_number);
  }
  sigprocmask(SIG_BLOCK, &signals_, &previous_mask_);
}

StopSignals::~StopSignals() {
  while (take() != 0) {  // one that came too late must not end the program now
  }
  const bool is_told_next = std::uncaught_exceptions() > 0;  // why the sweep ended
  if (!is_told_next) sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

int StopSignals::take(std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const std::chrono::nanoseconds rest = patience - seconds;
  const timespec wait{.tv_sec = seconds.count(), .tv_nsec = rest.count()};
  return std::max(sigtimedwait(&signals_, nullptr, &wait), 0);
}

}  // namespace fsdp
