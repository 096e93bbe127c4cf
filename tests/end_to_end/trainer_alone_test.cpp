#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <thread>

#include "contract/families/flops.h"
#include "contract/spec/run_spec.h"
#include "contract/spec/run_spec_yaml.h"
#include "tests/end_to_end/real_runs.h"

// fsdp-train without fsdp-run, as torchrun, srun and people start it.
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;

namespace {

// A folder with a run.yaml.
class LoneRun : public Workplace {
 public:
  explicit LoneRun(const std::string& steps = "5", const std::string& strategy = "ddp",
                   const std::string& more_keys = "", int ranks = 2)
      : Workplace("") {
    std::string run = kTinyRun;
    run.replace(run.find("steps: 5"), 8, "steps: " + steps);
    run.insert(1, more_keys + "strategy: {kind: " + strategy + ", ranks: " + std::to_string(ranks) +
                      "}, ");
    std::ofstream(*this / "run.yaml") << run << '\n';
  }

  std::unique_ptr<Program> start(const Variables& environment) const {
    return std::make_unique<Program>(
        *this / ".", std::vector<std::string>{FSDP_TRAIN_PROGRAM, "--spec", "run.yaml"},
        environment);
  }
};

Variables as_srun(int rank, int ranks, const std::string& port) {
  return {
      {"SLURM_PROCID", std::to_string(rank)},  {"SLURM_LOCALID", std::to_string(rank)},
      {"SLURM_NTASKS", std::to_string(ranks)}, {"SLURM_STEP_TASKS_PER_NODE", std::to_string(ranks)},
      {"SLURM_STEP_NODELIST", "localhost"},    {"SLURM_JOB_ID", port}};
}

std::vector<StepDone> steps_in(const std::filesystem::path& events_file) {
  std::vector<StepDone> steps;
  for (const Event& event : events_in(events_file)) {
    if (const auto* step = std::get_if<StepDone>(&event.body)) steps.push_back(*step);
  }
  return steps;
}

void check_finished(const LoneRun& folder, int attempt) {
  for (const int rank : {0, 1}) {
    const auto file = events_file(folder / ("attempt-" + std::to_string(attempt)), rank);
    const auto events = events_in(file);
    REQUIRE(steps_in(file).size() == 5);
    const auto started = std::get<RunStarted>(events.front().body);
    CHECK(started.rank == rank);
    CHECK(started.world_size == 2);
    CHECK(std::get<RunFinished>(events.back().body).steps == 5);
  }
}

}  // namespace

TEST_CASE("ranks started by hand agree on the first free attempt") {
  const LoneRun folder;
  int attempt = 0;
  for (const auto environment : {as_torchrun, as_srun}) {
    const std::string port = free_port();
    const auto rank_1 = folder.start(environment(1, 2, port));
    const Ended rank_0 = folder.start(environment(0, 2, port))->wait();
    INFO(rank_0.errors);
    CHECK(rank_0.status == 0);
    for (const std::string step : {"1", "5"}) {
      CHECK_THAT(rank_0.errors, Contains("info    train: step " + step + " of 5: loss "));
    }
    CHECK(rank_1->wait().status == 0);
    check_finished(folder, ++attempt);
  }
}

TEST_CASE("a step's communication is that of its collectives, on every rank") {
  const LoneRun folder(
      "5", "fsdp",
      "optimizer.gradient_clip_norm: 1.0, evaluation.every_steps: 1, "
      "evaluation.fraction: 0.5, evaluation.batches: 20, checkpoint.every_steps: 1, ");
  const std::string port = free_port();
  const auto rank_1 = folder.start(as_torchrun(1, 2, port));
  const Ended rank_0 = folder.start(as_torchrun(0, 2, port))->wait();
  INFO(rank_0.errors);
  CHECK(rank_0.status == 0);
  CHECK(rank_1->wait().status == 0);
  for (const int rank : {0, 1}) {
    const auto steps = steps_in(events_file(folder / "attempt-1", rank));
    CHECK(steps.size() == 5);
    for (const StepDone& step : steps) {
      CHECK(step.communication_time_ms.value() > 0);
      // One group, one thread: its operations follow each other within the step.
      CHECK(step.communication_time_ms.value() <= step.step_time_ms);
    }
  }
}

TEST_CASE("a step reports the operations of its micro-batches, and those that it does again") {
  const LoneRun folder("5", "ddp",
                       "batch.gradient_accumulation_steps: 3, activation_checkpointing.every: 1, ");
  const std::string port = free_port();
  const auto rank_1 = folder.start(as_torchrun(1, 2, port));
  const Ended rank_0 = folder.start(as_torchrun(0, 2, port))->wait();
  INFO(rank_0.errors);
  CHECK(rank_0.status == 0);
  CHECK(rank_1->wait().status == 0);
  const RunSpec spec = read_run_spec(folder / "run.yaml");
  const ForwardFlops forward = forward_flops(
      spec.model.config, {.rows = spec.batch.size_per_rank, .tokens = spec.data.sequence_length});
  for (const int rank : {0, 1}) {
    const auto steps = steps_in(events_file(folder / "attempt-1", rank));
    REQUIRE(steps.size() == 5);
    for (const StepDone& step : steps) {
      CHECK(step.model_flops == 3 * model_flops(forward));
      CHECK(step.hardware_flops == 3 * hardware_flops(forward, {.every = 1}));
      CHECK(step.hardware_flops > step.model_flops);
    }
  }
}

TEST_CASE("with train.deterministic two runs have the same losses to the bit") {
  const auto losses = [] {
    const LoneRun folder("8", "fsdp",
                         "train.deterministic: true, optimizer.gradient_clip_norm: 1.0, ");
    const std::string port = free_port();
    const auto rank_1 = folder.start(as_torchrun(1, 2, port));
    const Ended rank_0 = folder.start(as_torchrun(0, 2, port))->wait();
    INFO(rank_0.errors);
    CHECK(rank_0.status == 0);
    CHECK(rank_1->wait().status == 0);
    std::vector<double> figures;
    for (const StepDone& step : steps_in(events_file(folder / "attempt-1", 0))) {
      figures.push_back(step.loss.value());
      figures.push_back(step.gradient_norm.value());
    }
    return figures;
  };
  const std::vector<double> first = losses();
  CHECK(first.size() == 2 * 8);
  CHECK(losses() == first);

  const LoneRun undecided("3", "single", "train.deterministic: true, ", 1);
  const Ended refused = undecided.start({{"CUBLAS_WORKSPACE_CONFIG", ":4096:2"}})->wait();
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("'CUBLAS_WORKSPACE_CONFIG': ':4096:2' lets cuBLAS choose"));
}

TEST_CASE("a rank alone communicates for 0 ms") {
  const std::string strategy = GENERATE("single", "ddp", "fsdp");
  const LoneRun folder("3", strategy, "", 1);
  CHECK(folder.start({})->wait().status == 0);
  const auto steps = steps_in(events_file(folder / "attempt-1", 0));
  CHECK(steps.size() == 3);
  for (const StepDone& step : steps) CHECK(step.communication_time_ms.value() == 0);
}

TEST_CASE("torchrun starts the trainer") {
  const LoneRun folder;
  // torchrun needs more than a minute to import torch on a busy host.
  const Ended ended =
      Program(folder / ".", {TORCHRUN_PROGRAM, "--nproc-per-node", "2", "--master-port",
                             free_port(), "--no-python", FSDP_TRAIN_PROGRAM, "--spec", "run.yaml"})
          .wait(std::chrono::minutes(5));
  INFO(ended.errors);
  CHECK(ended.status == 0);
  check_finished(folder, 1);
}

TEST_CASE("another number of processes than ranks is refused") {
  const LoneRun folder;
  for (const auto environment : {as_torchrun, as_srun}) {
    const Ended ended = folder.start(environment(0, 3, free_port()))->wait();
    CHECK(ended.status == 2);
    CHECK_THAT(ended.errors,
               Contains("'strategy.ranks': is 2, but the launcher started 3 processes"));
  }
  CHECK(folder.start({})->wait().status == 2);  // without a launcher it is one process
  CHECK_FALSE(std::filesystem::exists(folder / "attempt-1"));
}

TEST_CASE("a launcher's environment that is wrong is refused by the variable's name") {
  struct Wrong {
    const char* variable;
    Variables environment;
  };
  const LoneRun folder;
  const Variables whole = as_torchrun(0, 2, "29999");
  std::vector<Wrong> all;
  const auto without = [&](const char* variable) {
    all.push_back({variable, whole});
    all.back().environment.erase(variable);
  };
  const auto with = [&](const char* variable, const std::string& value) {
    all.push_back({variable, whole});
    all.back().environment[variable] = value;
  };
  for (const char* variable : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    without(variable);
  }
  for (const char* variable : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"}) {
    for (const char* value : {"-1", "x", "1.0", "99999999999999999999"}) with(variable, value);
  }
  with("RANK", "2");
  with("LOCAL_RANK", "2");
  with("WORLD_SIZE", "0");
  with("MASTER_PORT", "65536");
  with("LOCAL_WORLD_SIZE", "3");
  with("LOCAL_WORLD_SIZE", "0");
  all.push_back({"OMPI_COMM_WORLD_RANK", {{"OMPI_COMM_WORLD_SIZE", "2"}}});
  all.push_back({"PMI_RANK", {{"PMI_SIZE", "2"}}});
  all.push_back({"SLURM_NTASKS", {{"SLURM_PROCID", "0"}}});
  all.push_back({"SLURM_PROCID", {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "2"}}});
  for (const auto& [variable, environment] : all) {
    const Ended ended = folder.start(environment)->wait();
    INFO(variable << ": " << ended.errors);
    CHECK(ended.status == 2);
    CHECK_THAT(ended.errors,
               Contains("fsdp-train: environment: '" + std::string(variable) + "': "));
  }
}

TEST_CASE("a rank that is asked to stop stops all of them after the same step") {
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  const LoneRun folder("1000000");
  const std::string port = free_port();
  const auto rank_0 = folder.start(as_torchrun(0, 2, port));
  const auto rank_1 = folder.start(as_torchrun(1, 2, port));
  wait_for_step(events_file(folder / "attempt-1", 1), 3);
  rank_1->send(signal);
  CHECK(rank_0->wait().status == 130);
  CHECK(rank_1->wait().status == 130);
  std::vector<int64_t> last_steps;
  for (const int rank : {0, 1}) {
    const auto file = events_file(folder / "attempt-1", rank);
    const auto events = events_in(file);
    REQUIRE(events.size() >= 2);
    const int64_t last = std::get<RunInterrupted>(events.back().body).step;
    CHECK(steps_in(file).back().step == last);
    last_steps.push_back(last);
  }
  CHECK(last_steps[0] == last_steps[1]);
}

TEST_CASE("a rank that hangs is an error of the others, which name what they waited for") {
  const LoneRun folder("1000000", "fsdp", "communication.timeout_s: 2, ");
  const std::string port = free_port();
  const auto rank_0 = folder.start(as_torchrun(0, 2, port));
  const auto rank_1 = folder.start(as_torchrun(1, 2, port));
  wait_for_step(events_file(folder / "attempt-1", 1), 3);
  rank_1->send(SIGSTOP);
  const Ended ended = rank_0->wait();
  INFO(ended.errors);
  CHECK(ended.status == 4);
  const auto events = events_in(events_file(folder / "attempt-1", 0));
  const auto failed = std::get<RunFailed>(events.back().body);
  CHECK(failed.exit_code == 4);
  CHECK_THAT(
      failed.reason,
      Matches("(all_gather of unit \\d|reduce_scatter of unit \\d|all_reduce) on rank 0 of 2 "
              "took longer than 2 s; .*raise communication.timeout_s.*"));
  CHECK_THAT(ended.errors, Contains(failed.reason));
}

TEST_CASE("ranks that are suspended together for longer than their timeout go on") {
  const LoneRun folder("1000000", "fsdp", "communication.timeout_s: 1, ");
  const std::string port = free_port();
  const auto rank_0 = folder.start(as_torchrun(0, 2, port));
  const auto rank_1 = folder.start(as_torchrun(1, 2, port));
  const auto events = events_file(folder / "attempt-1", 1);
  wait_for_step(events, 3);
  for (const auto& rank : {&rank_0, &rank_1}) (*rank)->send(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));  // longer than communication.timeout_s
  const int64_t before = steps_in(events).back().step;
  for (const auto& rank : {&rank_0, &rank_1}) (*rank)->send(SIGCONT);
  wait_for_step(events, before + 3);
  for (const auto& rank : {&rank_0, &rank_1}) (*rank)->send(SIGTERM);
  CHECK(rank_0->wait().status == 130);
  CHECK(rank_1->wait().status == 130);
}

TEST_CASE("the first rank of a node samples its devices, and run_finished stays last") {
  const LoneRun folder("50", "ddp", "device_samples.every_s: 0.1, ");
  const std::string port = free_port();
  const auto rank_1 = folder.start(as_torchrun(1, 2, port));
  CHECK(folder.start(as_torchrun(0, 2, port))->wait().status == 0);
  CHECK(rank_1->wait().status == 0);
  for (const int rank : {0, 1}) {
    const auto events = events_in(events_file(folder / "attempt-1", rank));
    CHECK(std::holds_alternative<RunFinished>(events.back().body));
    const bool sampled = std::any_of(events.begin(), events.end(), [](const Event& event) {
      const auto* sample = std::get_if<DeviceSample>(&event.body);
      return sample != nullptr && sample->device == "cpu" && sample->memory_used_bytes > 0;
    });
    CHECK(sampled == (rank == 0));
  }
}

TEST_CASE("the trainer says what it was built with, and the doctor reads it") {
  const Workplace workplace("  - {name: one}\n");
  const Ended ended = workplace.call({"doctor", "--trainer", FSDP_TRAIN_PROGRAM});
  CHECK_THAT(ended.output, Matches("[^]*fsdp-train,\\s+for\\s+the\\s+CPU\n[^]*") &&
                               Matches("[^]*ok       PyTorch        2\\.1[01]\\.[0-9]+\n[^]*"));
}

namespace {

// Returns each GOMP_SPINCOUNT in the output. libgomp prints it whenever it is loaded.
std::vector<std::string> spin_counts(const std::string& said) {
  const std::string name = "GOMP_SPINCOUNT = '";
  std::vector<std::string> counts;
  for (size_t at = said.find(name); at != std::string::npos; at = said.find(name, at + 1)) {
    const size_t begin = at + name.size();
    counts.push_back(said.substr(begin, said.find('\'', begin) - begin));
  }
  return counts;
}

const Variables kVerboseOpenMp = {{"OMP_DISPLAY_ENV", "verbose"}};

}  // namespace

TEST_CASE("threads that wait do not spin for long, unless the user says so") {
  const auto of = [](Variables environment) {
    environment.insert(kVerboseOpenMp.begin(), kVerboseOpenMp.end());
    const LoneRun folder;
    return spin_counts(
        Program(folder / ".", {FSDP_TRAIN_PROGRAM, "--version"}, environment).wait().errors);
  };
  CHECK(of({}) == std::vector<std::string>{"4000"});  // libgomp was not loaded before
  CHECK(of({{"GOMP_SPINCOUNT", "77"}}) == std::vector<std::string>{"77"});
  CHECK(of({{"OMP_WAIT_POLICY", "passive"}}) == std::vector<std::string>{"0"});
}

TEST_CASE("a rank of fsdp-run is loaded once, with threads that do not spin for long") {
  const Workplace workplace("  - {name: one}\n", kTinyRun, FSDP_TRAIN_PROGRAM);
  CHECK(workplace.run({"experiment.yaml"}, kVerboseOpenMp).status == 0);
  const auto log = attempt_folder(workplace, "one", 1) / "rank0.log";
  CHECK(spin_counts(text_of(log)) == std::vector<std::string>{"4000"});
}
