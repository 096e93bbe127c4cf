#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <functional>
#include <string_view>

#include "contract/record/exit_code.h"

// What `fsdp-run` does: one file per command, with its options. A command prints to stdout
// (progress and remarks to stderr) and throws ConfigError or std::runtime_error.
namespace fsdp {

// What a command does once the command line is read.
using CommandFunction = std::function<ExitCode()>;

// Each adds itself and its options to `app`.
CommandFunction add_run_command(CLI::App& app);
CommandFunction add_check_command(CLI::App& app);
CommandFunction add_schema_command(CLI::App& app);
CommandFunction add_cancel_command(CLI::App& app);
CommandFunction add_report_command(CLI::App& app);
CommandFunction add_diff_command(CLI::App& app);
CommandFunction add_export_command(CLI::App& app);
CommandFunction add_merge_command(CLI::App& app);
CommandFunction add_prune_command(CLI::App& app);
CommandFunction add_status_command(CLI::App& app);
CommandFunction add_logs_command(CLI::App& app);
CommandFunction add_explain_command(CLI::App& app);
CommandFunction add_doctor_command(CLI::App& app);
CommandFunction add_completion_command(CLI::App& app);
CommandFunction add_complete_command(CLI::App& app);
CommandFunction add_attempt_command(CLI::App& app);

struct Command {
  std::string_view name;
  CommandFunction (*add)(CLI::App& app);
  bool is_hidden = false;  // programs call it, not users
};

// In the order of --help.
inline constexpr std::array kCommands{
    Command{"run", add_run_command},
    Command{"check", add_check_command},
    Command{"schema", add_schema_command},
    Command{"cancel", add_cancel_command},
    Command{"report", add_report_command},
    Command{"diff", add_diff_command},
    Command{"export", add_export_command},
    Command{"merge", add_merge_command},
    Command{"prune", add_prune_command},
    Command{"status", add_status_command},
    Command{"logs", add_logs_command},
    Command{"explain", add_explain_command},
    Command{"doctor", add_doctor_command},
    Command{"completion", add_completion_command},
    Command{"complete", add_complete_command, true},
    Command{"attempt", add_attempt_command, true},
};

// The group of `run`'s options; `fsdp-run --help` shows them, because that word may be left out.
inline constexpr const char* kRunGroup = "Options of a run";

}  // namespace fsdp
