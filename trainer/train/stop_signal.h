#pragma once

namespace fsdp {

// Makes SIGTERM, SIGINT and SIGUSR1 (which batch systems send before a time limit) ask for a stop
// after the current step instead of ending the process.
void install_stop_handlers();

bool stop_requested();

}  // namespace fsdp
