#include "trainer/train/stop_signal.h"

#include <csignal>

namespace fsdp {
namespace {

volatile std::sig_atomic_t requested = 0;

void request_stop(int) { requested = 1; }

}  // namespace

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace fsdp
