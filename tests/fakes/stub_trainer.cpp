#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "trainer/contract/event.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/run_paths.h"
#include "trainer/contract/run_spec_yaml.h"

// A trainer without a model: reads its specification, reports made-up steps, and misbehaves on
// demand. Settings, all from the environment:
//
//   STUB_STEP_MS=5       how long a step takes
//   STUB_RULES="point=DDP,rank=2,step=3,kill=9; rank=1,exit=4"
//       A rule without `point` (part of the run's folder), `rank` or `step` (1) is for all of them.
//       What a rule does before that step: kill=SIGNAL (itself), exit=STATUS, fail=REASON,
//       out_of_memory=REASON, hang=1 (until a signal), deaf=1 (ignores SIGTERM from then on),
//       spawn=FILE (a process in a session of its own; writes its id there),
//       await=FILE (goes on when it is there).
namespace {

using namespace fsdp;

volatile sig_atomic_t asked_to_stop = 0;

int rank_of_this_process() {
  const char* rank = std::getenv("RANK");
  if (rank == nullptr) throw std::runtime_error("RANK is not set");
  return std::atoi(rank);
}

struct Rule {
  std::string point;
  int rank = -1;
  int64_t step = 1;
  std::string action;
  std::string value;
};

std::string_view next_part(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  while (part.starts_with(' ')) part.remove_prefix(1);
  return part;
}

std::vector<Rule> rules_from_environment() {
  std::vector<Rule> rules;
  const char* text = std::getenv("STUB_RULES");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    std::string_view rule_text = next_part(rest, ';');
    Rule rule;
    while (!rule_text.empty()) {
      std::string_view value = next_part(rule_text, ',');
      const std::string key(next_part(value, '='));
      if (key == "point") {
        rule.point = value;
      } else if (key == "rank") {
        rule.rank = std::stoi(std::string(value));
      } else if (key == "step") {
        rule.step = std::stoll(std::string(value));
      } else {
        rule.action = key;
        rule.value = value;
      }
    }
    rules.push_back(rule);
  }
  return rules;
}

void await(const std::string& file) {
  while (access(file.c_str(), F_OK) != 0 && asked_to_stop == 0) usleep(1000);
}

// What a training process may have started and forgotten.
void spawn(const std::string& file) {
  if (fork() != 0) return await(file);
  setsid();
  std::ofstream(file) << getpid() << std::endl;
  for (;;) pause();
}

// Does what the rule says; exits when that ends the process.
void follow(const Rule& rule, EventWriter& events) {
  if (rule.action == "kill") {
    kill(getpid(), std::stoi(rule.value));
  } else if (rule.action == "exit") {
    _exit(std::stoi(rule.value));
  } else if (rule.action == "fail" || rule.action == "out_of_memory") {
    const auto code = rule.action == "fail" ? ExitCode::kRunFailed : ExitCode::kOutOfMemory;
    events.write(RunFailed{.exit_code = static_cast<int64_t>(code), .reason = rule.value});
    _exit(static_cast<int>(code));
  } else if (rule.action == "hang") {
    for (;;) pause();
  } else if (rule.action == "deaf") {
    signal(SIGTERM, SIG_IGN);
  } else if (rule.action == "spawn") {
    spawn(rule.value);
  } else if (rule.action == "await") {
    await(rule.value);
  } else {
    throw std::runtime_error("STUB_RULES: unknown action '" + rule.action + "'");
  }
}

int train(const std::filesystem::path& spec_file, int attempt) {
  const RunSpec spec = read_run_spec(spec_file);
  const RunPaths paths(spec_file.parent_path());
  const int rank = rank_of_this_process();
  const std::vector<Rule> rules = rules_from_environment();
  const char* step_ms = std::getenv("STUB_STEP_MS");
  const std::chrono::milliseconds step_time(step_ms == nullptr ? 0 : std::atoi(step_ms));

  EventWriter events(paths.events(attempt, rank));
  const int64_t steps = spec.train.steps.value_or(1);
  events.write(RunStarted{.rank = rank,
                          .world_size = spec.strategy.ranks,
                          .local_rank = rank,
                          .host = "stub",
                          .process_id = getpid(),
                          .device = "cpu",
                          .device_name = "stub",
                          .steps_planned = steps,
                          .parameter_count = 1000,
                          .torch_version = "none"});
  std::cout << "stub trainer, rank " << rank << std::endl;
  for (int64_t step = 1; step <= steps; ++step) {
    for (const Rule& rule : rules) {
      const bool applies = spec_file.string().find(rule.point) != std::string::npos &&
                           (rule.rank < 0 || rule.rank == rank) && rule.step == step;
      if (applies) follow(rule, events);
    }
    std::this_thread::sleep_for(step_time);
    if (asked_to_stop != 0) {
      events.write(RunInterrupted{.step = step - 1});
      return static_cast<int>(ExitCode::kInterrupted);
    }
    const int64_t tokens = total_batch(spec) * spec.data.sequence_length;
    events.write(StepDone{.step = step,
                          .loss = 5.0 / static_cast<double>(step),
                          .step_time_ms = 10,
                          .tokens = tokens,
                          .label_count = tokens,
                          .learning_rate = spec.optimizer.learning_rate,
                          .gradient_norm = {},
                          .memory_allocated_bytes_forward = 1 << 20,
                          .memory_reserved_bytes_forward = 2 << 20,
                          .memory_allocated_bytes_max = (3 + rank) << 20,
                          .memory_reserved_bytes_max = (4 + rank) << 20});
  }
  events.write(RunFinished{.steps = steps});
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

int main(int argument_count, char** arguments) {
  std::filesystem::path spec;
  int attempt = 0;
  for (int i = 1; i + 1 < argument_count; i += 2) {
    const std::string_view option = arguments[i];
    if (option == "--spec") spec = arguments[i + 1];
    if (option == "--attempt") attempt = std::atoi(arguments[i + 1]);
  }
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_stop = 1; };  // without SA_RESTART: sleeps end
  sigaction(SIGTERM, &action, nullptr);
  try {
    return train(spec, attempt);
  } catch (const std::exception& error) {
    std::cerr << "stub_trainer: " << error.what() << '\n';
    return static_cast<int>(ExitCode::kBadConfiguration);
  }
}
