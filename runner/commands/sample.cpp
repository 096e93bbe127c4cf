// Asks a run's newest checkpoint: the command sample. The trainer does all the work, with the
// forward of training and evaluation.

#include <memory>

#include "base/system/program.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"

namespace fsdp {
namespace {

struct SampleArguments {
  std::string word;
  std::string prompt;
  int64_t tokens = 128;
  DeviceKind device = DeviceKind::kCpu;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

[[noreturn]] void sample(const SampleArguments& arguments) {
  const RunRecord run = find_run(existing_results(arguments.results), arguments.word);
  if (!run.source.empty()) {
    throw ConfigError(
        "", "",
        fmt::format("run {} was merged from {}; only that folder has its checkpoints, "
                    "so call sample with it as --results",
                    run_label(run), visible_line(run.source)));
  }
  if (run.attempt == 0) {
    throw ConfigError("", "",
                      fmt::format("run {} was never started, so it has no checkpoint; start "
                                  "it, with checkpoint.every_steps",
                                  run_label(run)));
  }
  become_program({find_trainer(arguments.trainer).string(),
                  "--spec=" + RunPaths(arguments.results / run.folder).spec().string(),
                  "--sample=" + arguments.prompt, fmt::format("--tokens={}", arguments.tokens),
                  "--device=" + std::string(name_of(arguments.device))});
}

}  // namespace

CommandFunction add_sample_command(CLI::App& command) {
  const auto arguments = std::make_shared<SampleArguments>();
  command.footer(R"(Examples:
  fsdp-run sample lab/4xFSDP "1. e4 e5 2. Nf3"
  fsdp-run sample LoRA "What is a fork in chess?" --tokens 60

The prompt is written as the run's data is: as a chat's first turn, as an
instruction, as an article, or as the begin of a text. The answer takes the most
likely token each time.)");
  command.add_option("RUN", arguments->word, kRunWordHelp)->required();
  command.add_option("PROMPT", arguments->prompt, "What the model is asked, or goes on with")
      ->required()
      ->check([](const std::string& text) { return text.empty() ? "is empty" : ""; }, "", "");
  add_option(command, "--tokens N=128", arguments->tokens, "The most tokens of the answer")
      ->check(CLI::PositiveNumber);
  add_named_option(command, "--device KIND=cpu", arguments->device,
                   "Where to compute, with one process; on a GPU it disturbs runs there");
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments]() -> ExitCode { sample(*arguments); };
}

}  // namespace fsdp
