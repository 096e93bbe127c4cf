#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// Limits the time of each part of a rank's start. The start ends with the first event. A step may
// take as long as the model needs, and communication.timeout_s limits waits for other ranks.
//
// Uses an interval timer and a handler of SIGALRM, which never returns. A thread would not do,
// because the system may refuse to create one. These functions do nothing in a process that does
// not watch its start, such as the runner. All but the handler run on one thread.
namespace fsdp {

// Begins to watch: a part that takes longer ends the process with `exit_code`. A second call sets
// the time for the parts that follow.
void watch_start_up(double timeout_s, int exit_code);

// Returns the line that reports a failure for `reason` at a time.
using FailureLine = std::function<std::string(const std::string& reason, int64_t time_unix_ms)>;

// Sets where the handler reports a failure from now on, besides standard error.
void set_start_up_events(int descriptor, FailureLine line);

// Begins a part, named for example "reading /data/train.npy".
void begin_start_up_part(std::string_view what);

// Restarts the time of the current part. Called by a part that is long, but makes progress.
void continue_start_up_part();

// Stops the timer until the next part begins. Called when the rank waits for other ranks, which has
// its own timeout.
void pause_start_up();

void end_start_up();

// The part that began last; empty if the start is not watched.
std::string start_up_part();

}  // namespace fsdp
