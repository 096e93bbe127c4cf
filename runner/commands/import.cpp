#include "runner/import/import.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "base/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"

namespace fsdp {
namespace {

ExitCode import_command(const ImportSources& sources) {
  const Imported imported = import_experiment(sources);
  std::cout << imported.experiment;
  for (const ForeignFile& file : imported.files) {
    const auto number = [&](Fate fate) {
      return std::ranges::count(file.words, fate, &ForeignWord::fate);
    };
    std::cerr << fmt::format(
        "{} ({}): {} keys translated, {} so already, {} irrelevant or empty, {} not translated\n",
        file.name, file.trainer->name, number(Fate::kTranslated), number(Fate::kSoAlready),
        number(Fate::kIrrelevant) + number(Fate::kEmpty), number(Fate::kUntranslated));
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_import_command(CLI::App& command) {
  const auto sources = std::make_shared<ImportSources>();
  command.footer(R"(Examples:
  fsdp-run import qlora.yml > mine.yaml
  fsdp-run import llama3_lora_sft.yaml fsdp_config.yaml
  fsdp-run import sft.yaml --launch "torchrun --nproc_per_node 8 sft.py"
  fsdp-run import qlora.yml | fsdp-run plan - --gpu rtx4090)");
  command
      .add_option("FILE", sources->files,
                  "Files of axolotl, LLaMA-Factory, torchtune, accelerate, DeepSpeed, TRL or "
                  "transformers; a later one counts where two give one key")
      ->required();
  add_option(command, "--launch LINE", sources->launch,
             "The command line that starts the training: its options count, too");
  add_option(command, "--ranks N", sources->ranks, "GPUs of the training (default: as in FILE)")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}, "from 1 to 100000"));
  add_option(command, "--name NAME", sources->name,
             "Name of the experiment (default: the first file's)");
  return [sources] { return import_command(*sources); };
}

}  // namespace fsdp
