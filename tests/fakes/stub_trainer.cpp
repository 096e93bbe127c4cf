#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "base/text/json.h"
#include "contract/devices/device_requirements.h"
#include "contract/record/event.h"
#include "contract/record/exit_code.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"

// A trainer without a model. It reads its specification and reports made-up steps and evaluations.
// Its checkpoints are empty folders, from which runs resume. It misbehaves on demand.
// All settings come from the environment:
//
//   STUB_STEP_MS=5       how long a step takes
//   STUB_CUDA=13.0       the CUDA that it says it was built for; without, it is for the CPU
//   STUB_RULES="point=DDP,rank=2,step=3,kill=9; rank=1,exit=4; batch_above=6,out_of_memory=no room"
//       A rule without `point` (part of the run's folder), `rank` or `batch_above` (a limit of
//       batch.size_per_rank) is for all runs and ranks. Without `step` it is for step 1.
//       A rule acts before its step: kill=SIGNAL (itself), exit=STATUS, fail=REASON,
//       out_of_memory=REASON, hang=1 (until a signal), deaf=1 (ignores SIGTERM and SIGUSR1 from
//       then on), spawn=FILE (starts a process in a session of its own, which writes its id to the
//       file), await=FILE (waits until the file exists).
namespace {

using namespace fsdp;

volatile sig_atomic_t asked_to_stop = 0;

int rank_of_this_process() {
  for (const char* name : {"RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  }
  throw std::runtime_error("neither RANK nor SLURM_PROCID is set");
}

struct Rule {
  std::string point;
  int rank = -1;
  int64_t step = 1;
  int64_t batch_above = 0;
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
      } else if (key == "batch_above") {
        rule.batch_above = std::stoll(std::string(value));
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

// Starts a process that outlives the trainer.
void spawn(const std::string& file) {
  if (fork() != 0) return await(file);
  setsid();
  std::ofstream(file) << getpid() << std::endl;
  for (;;) pause();
}

// Applies the rule. Does not return if the rule ends the process.
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
    for (const int signal_number : {SIGTERM, SIGUSR1}) signal(signal_number, SIG_IGN);
  } else if (rule.action == "spawn") {
    spawn(rule.value);
  } else if (rule.action == "await") {
    await(rule.value);
  } else {
    throw std::runtime_error("STUB_RULES: unknown action '" + rule.action + "'");
  }
}

// The step of the newest checkpoint in the run's folder from before the attempt; 0 if there is
// none. Rank 0 may have written others before this rank began.
int64_t newest_checkpoint(const RunPaths& paths, int attempt) {
  int64_t newest = 0;
  std::error_code not_there;
  const auto begin = std::filesystem::last_write_time(paths.launch_record(attempt), not_there);
  const bool is_by_hand = static_cast<bool>(not_there);
  for (const auto& entry : std::filesystem::directory_iterator(paths.checkpoints(), not_there)) {
    if (!is_by_hand && entry.last_write_time() > begin) continue;
    const std::string name = entry.path().filename();
    newest = std::max<int64_t>(newest, std::stoll(name.substr(name.find('-') + 1)));
  }
  return newest;
}

// The events file in the attempt's folder. Creates the folder if the trainer was started by hand.
std::string events_file(const RunPaths& paths, int attempt, int rank) {
  std::filesystem::create_directories(paths.attempt(attempt));
  return paths.events(attempt, rank);
}

class StubTrainer {
 public:
  StubTrainer(const RunSpec& spec, const RunPaths& paths, int attempt)
      : spec_(spec),
        paths_(paths),
        attempt_(attempt),
        rank_(rank_of_this_process()),
        events_(events_file(paths, attempt, rank_)) {}

  ExitCode run() {
    const std::vector<Rule> rules = rules_from_environment();
    const char* step_ms = std::getenv("STUB_STEP_MS");
    const std::chrono::milliseconds step_time(step_ms == nullptr ? 0 : std::atoi(step_ms));
    const int64_t steps = start();
    for (int64_t step = steps_done_ + 1; step <= steps; ++step) {
      for (const Rule& rule : rules) {
        if (rule.step == step && is_for_this_rank(rule)) follow(rule, events_);
      }
      std::this_thread::sleep_for(step_time);
      if (asked_to_stop != 0) {
        if (wants_checkpoints(spec_)) save(step - 1);
        events_.write(RunInterrupted{.step = step - 1});
        return ExitCode::kInterrupted;
      }
      report(step);
      if (step % spec_.evaluation.every_steps.value_or(steps + 1) == 0) evaluate(step);
      if (step % spec_.checkpoint.every_steps.value_or(steps + 1) == 0) save(step);
    }
    events_.write(RunFinished{.steps = steps});
    return ExitCode::kOk;
  }

 private:
  bool is_for_this_rank(const Rule& rule) const {
    return paths_.folder().string().find(rule.point) != std::string::npos &&
           (rule.rank < 0 || rule.rank == rank_) && spec_.batch.size_per_rank > rule.batch_above;
  }

  // Returns the steps of the whole run.
  int64_t start() {
    const int64_t wanted = spec_.train.steps.value_or(1);
    const int64_t steps = std::min(wanted, spec_.train.max_steps.value_or(wanted));
    if (spec_.resume.is_auto) steps_done_ = newest_checkpoint(paths_, attempt_);
    RunStarted started;
    started.rank = rank_;
    started.world_size = spec_.strategy.ranks;
    started.local_rank = rank_;
    started.host = "stub";
    started.process_id = getpid();
    started.device = "cpu";
    started.device_name = "stub";
    started.steps_planned = steps;
    started.parameter_count = 1000;
    started.trained_parameter_count = spec_.method == Method::kFull ? 1000 : 10;
    started.resumed_from_step = steps_done_;
    if (steps < wanted) started.warning = "train.max_steps cuts the run short";
    started.torch_version = "none";
    events_.write(started);
    std::cout << "stub trainer, rank " << rank_ << std::endl;
    return steps;
  }

  void report(int64_t step) {
    StepDone done;
    done.step = step;
    done.loss = 5.0 / static_cast<double>(step);
    done.step_time_ms = 10;
    done.tokens = total_batch(spec_) * spec_.data.sequence_length;
    done.unpadded_tokens = done.tokens;
    done.label_count = done.tokens;
    done.learning_rate = spec_.optimizer.learning_rate;
    done.memory_allocated_bytes_forward = 1 << 20;
    done.memory_reserved_bytes_forward = 2 << 20;
    done.memory_allocated_bytes_max = (3 + rank_) << 20;
    done.memory_reserved_bytes_max = (4 + rank_) << 20;
    done.model_flops = 6e9;
    done.hardware_flops = 8e9;
    events_.write(done);
  }

  void evaluate(int64_t step) {
    events_.write(EvaluationDone{.step = step,
                                 .loss = 6.0 / static_cast<double>(step),
                                 .token_accuracy = 0.125,
                                 .label_count = 100,
                                 .evaluation_time_ms = 1});
  }

  void save(int64_t step) {
    if (rank_ != 0) return;
    const std::filesystem::path folder = paths_.checkpoint(step);
    std::filesystem::create_directories(folder);
    events_.write(CheckpointDone{.step = step,
                                 .path = folder.lexically_relative(paths_.folder()),
                                 .size_bytes = 3 << 20,
                                 .write_time_ms = 1500});
  }

  RunSpec spec_;
  RunPaths paths_;
  int attempt_;
  int rank_;
  EventWriter events_;
  int64_t steps_done_ = 0;
};

}  // namespace

int main(int argument_count, char** arguments) {
  std::filesystem::path spec;
  int attempt = 0;
  if (argument_count == 2 && arguments[1] == std::string_view("--version")) {
    const char* cuda = std::getenv("STUB_CUDA");
    std::cout << json_text(TrainerBuild{"2.11.0", cuda == nullptr ? "" : cuda, "", "sm_80"})
              << '\n';
    return 0;
  }
  if (argument_count == 2 && arguments[1] == std::string_view("--self-test")) {
    std::cout << "self-test\n";
    return std::atoi(std::getenv("STUB_SELF_TEST_STATUS"));
  }
  for (int i = 1; i + 1 < argument_count; i += 2) {
    const std::string_view option = arguments[i];
    if (option == "--spec") spec = arguments[i + 1];
    if (option == "--attempt") attempt = std::atoi(arguments[i + 1]);
  }
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_stop = 1; };  // without SA_RESTART: sleeps end
  for (const int signal_number : {SIGTERM, SIGUSR1}) sigaction(signal_number, &action, nullptr);
  try {
    StubTrainer trainer(read_run_spec(spec), RunPaths(spec.parent_path()), attempt);
    return static_cast<int>(trainer.run());
  } catch (const std::exception& error) {
    std::cerr << "stub_trainer: " << error.what() << '\n';
    return static_cast<int>(ExitCode::kBadConfiguration);
  }
}
