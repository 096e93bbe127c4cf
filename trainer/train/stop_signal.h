#pragma once

namespace fsdp {

// Makes SIGTERM, SIGINT and SIGUSR1 ask for a stop after the current step instead of ending the
// process. Batch systems send SIGUSR1 before a time limit. Call it before other threads start; they
// inherit the setting.
void hold_stop_signals();

bool stop_requested();

// True if, since the last call, the process was stopped (SIGSTOP, `scontrol suspend`) and then
// continued.
bool was_suspended();

}  // namespace fsdp
