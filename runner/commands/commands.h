#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <functional>
#include <string_view>

#include "contract/record/exit_code.h"

// The commands of `fsdp-run`, with their options. A command prints to stdout, and progress and
// remarks to stderr. It throws ConfigError or std::runtime_error.
namespace fsdp {

// Executes a command after the command line has been read.
using CommandFunction = std::function<ExitCode()>;

// Each function adds its command's options to `command`.
CommandFunction add_run_command(CLI::App& command);
CommandFunction add_check_command(CLI::App& command);
CommandFunction add_calibrate_command(CLI::App& command);
CommandFunction add_plan_command(CLI::App& command);
CommandFunction add_prepare_command(CLI::App& command);
CommandFunction add_fetch_command(CLI::App& command);
CommandFunction add_schema_command(CLI::App& command);
CommandFunction add_import_command(CLI::App& command);
CommandFunction add_cancel_command(CLI::App& command);
CommandFunction add_report_command(CLI::App& command);
CommandFunction add_diff_command(CLI::App& command);
CommandFunction add_diverge_command(CLI::App& command);
CommandFunction add_why_command(CLI::App& command);
CommandFunction add_export_command(CLI::App& command);
CommandFunction add_merge_command(CLI::App& command);
CommandFunction add_prune_command(CLI::App& command);
CommandFunction add_status_command(CLI::App& command);
CommandFunction add_logs_command(CLI::App& command);
CommandFunction add_sample_command(CLI::App& command);
CommandFunction add_explain_command(CLI::App& command);
CommandFunction add_doctor_command(CLI::App& command);
CommandFunction add_completion_command(CLI::App& command);
CommandFunction add_complete_command(CLI::App& command);
CommandFunction add_attempt_command(CLI::App& command);

struct Command {
  std::string_view name;
  std::string_view description;  // empty: for programs, not for users
  CommandFunction (*add_options)(CLI::App& command);

  CommandFunction add_to(CLI::App& app) const {
    CLI::App& command = *app.add_subcommand(std::string(name), std::string(description));
    if (description.empty()) command.group("");
    return add_options(command);
  }
};

// The commands, in the order of --help.
//
// To add a command: write its function with an `Examples:` footer in runner/commands/, and add its
// line here. README.md names it.
inline constexpr std::array kCommands{
    Command{"run", "Run an experiment; the word may be left out", add_run_command},
    Command{"check", "Check an experiment and its input files", add_check_command},
    Command{"plan", "Predict the memory of every run, without training", add_plan_command},
    Command{"calibrate", "Time the parts of an experiment's steps, so that `plan` shows step times",
            add_calibrate_command},
    Command{"fetch", "Download an experiment's models and data from a Hugging Face hub",
            add_fetch_command},
    Command{"prepare", "Tokenize an experiment's texts, once for all its runs",
            add_prepare_command},
    Command{"schema", "Document every key of an experiment", add_schema_command},
    Command{"import", "Translate another trainer's configuration to an experiment",
            add_import_command},
    Command{"cancel", "Cancel jobs of Slurm", add_cancel_command},
    Command{"report", "Print the table of earlier runs", add_report_command},
    Command{"diff", "Print which keys of two runs differ, and where their results come from",
            add_diff_command},
    Command{"diverge", "Say where two runs that should be equal first differ, and why",
            add_diverge_command},
    Command{"why", "Say where a run's time and memory go, and why they differ from another's",
            add_why_command},
    Command{"export",
            "Write runs as CSV, JSON lines, Parquet, traces, or for TensorBoard and other trackers",
            add_export_command},
    Command{"merge", "Bring several results folders into one", add_merge_command},
    Command{"prune", "Remove old runs or checkpoints; asks first", add_prune_command},
    Command{"status", "Show the state of runs, also while they run", add_status_command},
    Command{"logs", "Print what a rank of a run has written", add_logs_command},
    Command{"sample", "Ask a run's newest checkpoint: print what it answers to a prompt",
            add_sample_command},
    Command{"explain", "Say why a run ran, was skipped or failed, and how to repeat it by hand",
            add_explain_command},
    Command{"doctor", "Say what this host has and lacks, and how to get it", add_doctor_command},
    Command{"completion", "Print a script that makes a shell complete commands",
            add_completion_command},
    Command{"complete", "", add_complete_command},
    Command{"attempt", "", add_attempt_command},
};

// The group of `run`'s options. `fsdp-run --help` shows them, because the word `run` may be left
// out.
inline constexpr const char* kRunGroup = "Options of a run";

}  // namespace fsdp
