#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "contract/record/exit_code.h"
#include "runner/commands/print_report.h"

// What `fsdp-run report` prints.
namespace fsdp {

struct Question {
  std::vector<std::string> experiments;  // names or files; none: every one in the results
  std::vector<std::string> compare;      // none, or two runs
  std::filesystem::path reference;       // empty, or a file of published figures
  ReportOptions options;
};

// The text and the exit status. Throws ConfigError.
std::pair<std::string, ExitCode> answer(const Question& question, Store& store);

}  // namespace fsdp
