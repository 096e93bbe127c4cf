#include "runner/fetch/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <thread>

#include "contract/files/hub_cache.h"
#include "contract/inputs/hub_inputs.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/fetch/fetch_view.h"
#include "runner/fetch/hub.h"
#include "runner/host/host.h"
#include "runner/progress/run_progress.h"
#include "runner/run/run_loop.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kDrawInterval{100};

struct FetchArguments {
  Choice choice;
  double patience_s = 30;  // without a byte from the server
};

// Returns the hub's inputs that the chosen runs name, each once.
std::vector<HubInput> inputs_of(const Choice& choice) {
  ExpandOptions options = choice.expand;
  options.check_gpus = false;
  options.from_hub_cache = false;
  const Expansion expansion =
      Experiment::load(choice.file).expand(options, find_host(choice.gpus).resources);
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

// Fetches on other threads, while this thread shows progress and takes signals.
std::vector<FetchedRepository> fetch_shown(const std::vector<HubInput>& inputs,
                                           const FetchArguments& arguments) {
  constexpr double kWaitsPerPatience = 30;
  std::signal(SIGPIPE, SIG_IGN);  // connections that end while TLS writes to them
  StopSignals signals;            // before there are threads, which hold them back as well
  const Endpoint endpoint = endpoint_from_environment(arguments.patience_s);
  FetchProgress progress;
  std::vector<FetchedRepository> fetched;
  std::exception_ptr failure;
  std::atomic<bool> has_ended = false;
  FetchView view(progress);
  std::jthread thread([&](std::stop_token stop) {
    try {
      fetched = fetch(inputs, endpoint, arguments.patience_s / kWaitsPerPatience, progress, stop);
    } catch (...) {
      failure = std::current_exception();
    }
    has_ended = true;
  });
  while (!has_ended) {
    if (signals.take(kDrawInterval) != 0) thread.request_stop();
    view.refresh();
  }
  thread.join();
  view.refresh();
  if (failure) std::rethrow_exception(failure);
  return fetched;
}

ExitCode fetch_inputs(const FetchArguments& arguments) {
  const std::vector<HubInput> inputs = inputs_of(arguments.choice);
  if (inputs.empty()) {
    std::cout << visible_line(arguments.choice.file.string())
              << " names nothing that is on a hub; nothing to fetch\n";
    return ExitCode::kOk;
  }
  try {
    for (const FetchedRepository& repository : fetch_shown(inputs, arguments)) {
      std::cout << visible_line(fmt::format("{}: {}, {}, in {}", repository.name.repository_text(),
                                            counted(repository.files, "file"),
                                            memory_text(repository.bytes),
                                            repository.snapshot.string()))
                << '\n';
    }
  } catch (const Interrupted&) {
    std::cerr << "fsdp-run: interrupted; what has come so far is kept, and the same command goes "
                 "on from there\n";
    return ExitCode::kInterrupted;
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_fetch_command(CLI::App& command) {
  const auto arguments = std::make_shared<FetchArguments>();
  command.footer(
      R"(Examples:
  fsdp-run fetch my.yaml
  fsdp-run fetch my.yaml --profile a100x4 --only 4xFSDP
  HF_ENDPOINT=https://hub.example.org fsdp-run fetch my.yaml)");
  add_choice_options(command, arguments->choice);
  command.add_option("--patience", arguments->patience_s)->group("");
  return [arguments] { return fetch_inputs(*arguments); };
}

}  // namespace fsdp
