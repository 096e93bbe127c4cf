#include "runner/fetch/fetch.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>

#include "base/text/bytes_text.h"
#include "base/text/utf8.h"
#include "formats/inputs/hub_inputs.h"
#include "runner/commands/options.h"
#include "runner/progress/run_progress.h"
#include "runner/run/run_loop.h"

namespace fsdp {
namespace {

// Returns the hub's inputs that the chosen runs name, each once.
std::vector<HubInput> inputs_of(const Choice& choice) {
  const Expansion expansion =
      Experiment::load(choice.file).expand(choice.expand, find_host(choice.gpus).resources);
  std::vector<HubInput> inputs;
  for (const Run& run : expansion.runs) {
    for (HubInput& input : hub_inputs(run.spec)) {
      const bool is_known = std::ranges::any_of(inputs, [&](const HubInput& other) {
        return other.key == input.key && other.name == input.name;
      });
      if (is_known) continue;
      input.place = expansion.place(run, input.key);
      inputs.push_back(std::move(input));
    }
  }
  return inputs;
}

struct Interrupted : std::exception {};

ExitCode fetch_inputs(const Choice& choice) {
  const std::vector<HubInput> inputs = inputs_of(choice);
  if (inputs.empty()) {
    std::cout << visible_line(choice.file.string())
              << " names no model or data on a hub; there is nothing to fetch\n";
    return ExitCode::kOk;
  }
  StopSignals signals;
  FetchView view;
  const auto show = [&](const FetchProgress& progress) {
    view.show(progress);
    if (signals.take() != 0) throw Interrupted();
  };
  try {
    for (const FetchedRepository& repository : fetch(inputs, show)) {
      std::cout << visible_line(fmt::format("{}: {}, {}, in {}", repository.name.repository_text(),
                                            counted(repository.files, "file"),
                                            bytes_text(repository.bytes),
                                            repository.snapshot.string()))
                << '\n';
    }
  } catch (const Interrupted&) {
    std::cerr << "fsdp-run: interrupted; what was fetched so far is kept, and the same command "
                 "continues from there\n";
    return ExitCode::kInterrupted;
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_fetch_command(CLI::App& command) {
  const auto choice = std::make_shared<Choice>();
  choice->expand.check_gpus = false;
  choice->expand.from_hub_cache = false;
  command.footer(
      R"(Examples:
  fsdp-run fetch my.yaml
  fsdp-run fetch my.yaml --profile a100x4 --only 4xFSDP
  HF_ENDPOINT=https://hub.example.org fsdp-run fetch my.yaml)");
  add_choice_options(command, *choice);
  return [choice] { return fetch_inputs(*choice); };
}

}  // namespace fsdp
