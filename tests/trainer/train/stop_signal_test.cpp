#include "trainer/train/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace fsdp::stop_signal_test {

sighandler_t handler_of(int number) {
  struct sigaction action;
  sigaction(number, nullptr, &action);
  return action.sa_handler;
}

TEST_CASE("signals of batch systems ask for a stop, and run no code in the middle of other code") {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    INFO("signal " << number);
    const sighandler_t handler = handler_of(number);
    fsdp::hold_stop_signals();
    CHECK_FALSE(fsdp::stop_requested());
    CHECK(handler_of(number) == handler);
    kill(getpid(), number);
    CHECK(fsdp::stop_requested());
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    int taken = 0;
    sigwait(&one, &taken);
    CHECK_FALSE(fsdp::stop_requested());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace fsdp::stop_signal_test
