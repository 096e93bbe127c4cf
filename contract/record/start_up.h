#pragma once

#include <string>
#include <string_view>

// The time that the parts of a rank's start may take. It ends with the first event: how long a step
// takes is the model's own, and what ranks wait for then has communication.timeout_s.
//
// An interval timer and a handler of SIGALRM, which never returns: there is no thread, as a thread
// may be what cannot be had. In a process that does not watch its start, the runner's for instance,
// these functions do nothing. All but the handler run on one thread.
namespace fsdp {

// Begins to watch: a part that takes longer ends the process. Again: another time for what follows.
void watch_start_up(double timeout_s);

// Where the handler writes run_failed, besides standard error; -1: nowhere.
void set_start_up_events(int descriptor);

// What the rank does from now on, such as "reading /data/train.npy".
void begin_start_up_part(std::string_view what);

// The part goes on and its time begins again, for what is long because there is much of it.
void continue_start_up_part();

// Nothing is timed until the next part begins: others are waited for, which has a time of its own.
void pause_start_up();

// The start is over.
void end_start_up();

// What begin_start_up_part was told last; empty when the start is not watched.
std::string start_up_part();

}  // namespace fsdp
