// Ends a rank whose start hangs. The handler writes a text that was made before.
#include "base/system/start_up.h"

#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <utility>

#include "base/system/unix_time.h"
#include "base/text/numbers.h"

namespace fsdp {
namespace {

// Everything that the handler needs, prepared beforehand.
struct Failure {
  std::string what;
  std::string message;  // for standard error
  std::string event;    // a line of the events file
};

double timeout_s = 0;  // 0: the start is not watched
int exit_code = 0;
FailureLine failure_line;         // empty: failures are not reported
std::array<Failure, 2> failures;  // the current one, and one for the next part
std::atomic<const Failure*> current = nullptr;
std::atomic<int> events = -1;

void set_timer(double seconds) {
  itimerval time{};
  time.it_value.tv_sec = static_cast<time_t>(seconds);
  time.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  setitimer(ITIMER_REAL, &time, nullptr);
}

void write_all(int descriptor, const char* text, size_t size) {
  if (write(descriptor, text, size) < 0) return;  // there is nobody left to tell
}

// Calls only functions that POSIX allows in a signal handler.
void fail(int) {
  const Failure* failure = current.load();
  if (failure == nullptr) return;
  write_all(STDERR_FILENO, failure->message.data(), failure->message.size());
  if (const int descriptor = events.load(); descriptor >= 0 && !failure->event.empty()) {
    write_all(descriptor, failure->event.data(), failure->event.size());
  }
  _exit(exit_code);
}

}  // namespace

void watch_start_up(double timeout, int code) {
  static_assert(std::atomic<const Failure*>::is_always_lock_free);
  timeout_s = timeout;
  exit_code = code;
  struct sigaction action {};
  action.sa_handler = fail;
  sigfillset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  begin_start_up_part("beginning");
}

void set_start_up_events(int descriptor, FailureLine line) {
  failure_line = std::move(line);
  events = descriptor;
  if (current.load() != nullptr) begin_start_up_part(start_up_part());
}

void begin_start_up_part(std::string_view what) {
  if (timeout_s == 0) return;
  // The handler may run at any time, so it never sees a text that is being written.
  Failure& next = current.load() == &failures[0] ? failures[1] : failures[0];
  next.what = what;
  const std::string reason =
      "the start did not get past " + next.what + " within " + shortest(timeout_s) +
      " s; if it needs longer, raise communication.start_up_timeout_s; if threads cannot be had, "
      "raise the limit on processes (ulimit -u, pids.max of the cgroup)";
  next.message = "fsdp-train: " + reason + '\n';
  const auto fails_unix_ms = now_unix_ms() + static_cast<int64_t>(timeout_s * 1000);
  if (failure_line) next.event = failure_line(reason, fails_unix_ms) + '\n';
  current = &next;
  set_timer(timeout_s);
}

void continue_start_up_part() { begin_start_up_part(start_up_part()); }

void pause_start_up() {
  if (timeout_s != 0) set_timer(0);
}

void end_start_up() {
  pause_start_up();
  timeout_s = 0;
  current = nullptr;
}

std::string start_up_part() {
  const Failure* failure = current.load();
  return failure == nullptr ? "" : failure->what;
}

}  // namespace fsdp
