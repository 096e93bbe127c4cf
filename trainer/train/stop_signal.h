#pragma once

namespace fsdp {

// Makes SIGTERM and SIGINT ask for a stop after the current step instead of ending the process.
void install_stop_handlers();

bool stop_requested();

}  // namespace fsdp
