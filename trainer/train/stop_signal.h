#pragma once

namespace fsdp {

// Makes SIGTERM, SIGINT and SIGUSR1 (which batch systems send before a time limit) ask for a stop
// after the current step instead of ending the process. To be called before other threads start:
// they take it over.
void hold_stop_signals();

bool stop_requested();

}  // namespace fsdp
