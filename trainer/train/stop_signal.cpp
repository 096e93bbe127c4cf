// Asks for a stop by blocked signals, which no handler receives.
#include "trainer/train/stop_signal.h"

#include <signal.h>

#include <array>

namespace fsdp {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT, SIGUSR1};

}  // namespace

// Signals are blocked instead of handled: a handler's frame would overwrite data that oneDNN's
// generated matrix products keep below the stack pointer.
void hold_stop_signals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kSignals) sigaddset(&held, signal);
  sigaddset(&held, SIGCONT);  // even if blocked, it continues a stopped process
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

bool stop_requested() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  for (const int signal : kSignals) {
    if (sigismember(&pending, signal) == 1) return true;
  }
  return false;
}

bool was_suspended() {
  sigset_t continued;
  sigemptyset(&continued);
  sigaddset(&continued, SIGCONT);
  constexpr timespec kNow{};
  return sigtimedwait(&continued, nullptr, &kNow) == SIGCONT;
}

}  // namespace fsdp
