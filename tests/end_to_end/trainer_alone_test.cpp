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
#include "tests/free_port.h"

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
  // Runs both ranks to their end. Returns what rank 0 said.
  std::string train(Variables (*environment)(int, int, const std::string&) = as_torchrun) const {
    const std::string port = std::to_string(free_port());
    const auto rank_1 = start(environment(1, 2, port));
    const Ended rank_0 = start(environment(0, 2, port))->wait();
    INFO(rank_0.errors);
    CHECK(rank_0.status == 0);
    CHECK(rank_1->wait().status == 0);
    return rank_0.errors;
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
    const std::string said = folder.train(environment);
    for (const std::string step : {"1", "5"}) {
      CHECK_THAT(said, Contains("info    train: step " + step + " of 5: loss "));
    }
    check_finished(folder, ++attempt);
  }
}

TEST_CASE("every rank reports a step's communication, its operations and those done again") {
  const LoneRun folder("5", "fsdp",
                       "optimizer.gradient_clip_norm: 1.0, evaluation.every_steps: 1, "
                       "evaluation.fraction: 0.5, evaluation.batches: 20, "
                       "checkpoint.every_steps: 1, batch.gradient_accumulation_steps: 3, "
                       "activation_checkpointing.every: 1, ");
  folder.train();
  const RunSpec spec = read_run_spec(folder / "run.yaml");
  const ForwardFlops forward = forward_flops(
      spec.model.config, {.rows = spec.batch.size_per_rank, .tokens = spec.data.sequence_length});
  for (const int rank : {0, 1}) {
    const auto steps = steps_in(events_file(folder / "attempt-1", rank));
    REQUIRE(steps.size() == 5);
    for (const StepDone& step : steps) {
      CHECK(step.communication_time_ms.value() > 0);
      // One group, one thread: its operations follow each other within the step.
      CHECK(step.communication_time_ms.value() <= step.step_time_ms);
      CHECK(step.model_flops == 3 * model_flops(forward));
      CHECK(step.hardware_flops == 3 * hardware_flops(forward, {.every = 1}));
      CHECK(step.hardware_flops > step.model_flops);
    }
  }
}

TEST_CASE("a rank reports its use of CPUs once, unless no step comes after the warm-up") {
  const Workplace workplace(
      "  - {name: measured, evaluation: {every_steps: 2, fraction: 0.1}}\n"
      "  - {name: warm-up, train.warmup_steps_excluded: 5}\n",
      kTinyRun, FSDP_TRAIN_PROGRAM);
  REQUIRE(workplace.run().status == 0);
  const auto uses = [&](const std::string& point) {
    const auto events = events_in(events_file(attempt_folder(workplace, point, 1), 0));
    return std::ranges::count_if(
        events, [](const Event& event) { return std::holds_alternative<CpuUse>(event.body); });
  };
  CHECK(uses("measured") == 1);
  CHECK(uses("warm-up") == 0);
}

TEST_CASE("with train.deterministic two runs have the same losses to the bit") {
  const auto losses = [] {
    const LoneRun folder("8", "fsdp",
                         "train.deterministic: true, optimizer.gradient_clip_norm: 1.0, ");
    folder.train();
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
                             std::to_string(free_port()), "--no-python", FSDP_TRAIN_PROGRAM,
                             "--spec", "run.yaml"})
          .wait(std::chrono::minutes(5));
  INFO(ended.errors);
  CHECK(ended.status == 0);
  check_finished(folder, 1);
}

TEST_CASE("another number of processes than ranks is refused") {
  const LoneRun folder;
  for (const auto environment : {as_torchrun, as_srun}) {
    const Ended ended = folder.start(environment(0, 3, std::to_string(free_port())))->wait();
    CHECK(ended.status == 2);
    CHECK_THAT(ended.errors,
               Contains("'strategy.ranks': is 2, but the launcher started 3 processes"));
  }
  CHECK(folder.start({})->wait().status == 2);  // without a launcher it is one process
  CHECK_FALSE(std::filesystem::exists(folder / "attempt-1"));
}

TEST_CASE("a rank that is asked to stop stops all of them after the same step") {
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  const LoneRun folder("1000000");
  const std::string port = std::to_string(free_port());
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

TEST_CASE("ranks that are suspended together for longer than their timeout go on") {
  const LoneRun folder("1000000", "fsdp", "communication.timeout_s: 5, ");
  const std::string port = std::to_string(free_port());
  const auto rank_0 = folder.start(as_torchrun(0, 2, port));
  const auto rank_1 = folder.start(as_torchrun(1, 2, port));
  const auto events = events_file(folder / "attempt-1", 1);
  wait_for_step(events, 3);
  for (const auto& rank : {&rank_0, &rank_1}) (*rank)->send(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(6));  // longer than their timeout
  const int64_t before = steps_in(events).back().step;
  for (const auto& rank : {&rank_0, &rank_1}) (*rank)->send(SIGCONT);
  wait_for_step(events, before + 3);
  for (const auto& rank : {&rank_0, &rank_1}) (*rank)->send(SIGTERM);
  CHECK(rank_0->wait().status == 130);
  CHECK(rank_1->wait().status == 130);
}

TEST_CASE("the first rank of a node samples its devices, and run_finished stays last") {
  const LoneRun folder("50", "ddp", "device_samples.every_s: 0.1, ");
  folder.train();
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
