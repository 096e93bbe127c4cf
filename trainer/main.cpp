// Parses the command line of fsdp-train and runs it. An error never unwinds the stack, because
// destructors of communication would wait for other ranks.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <vector>

#include "base/system/log.h"
#include "base/system/processor.h"
#include "base/system/standard_streams.h"
#include "base/system/start_up.h"
#include "base/text/json.h"
#include "contract/record/exit_code.h"
#include "contract/spec/run_spec.h"
#include "trainer/plan/plan_run.h"
#include "trainer/self_test/self_test.h"
#include "trainer/train/device.h"
#include "trainer/train/failure.h"
#include "trainer/train/run.h"

namespace {

using fsdp::ExitCode;

// Reports an error as a run_failed event and a line on stderr, and ends the process with its exit
// code.
[[noreturn]] void fail(fsdp::RankRun& run, const std::exception_ptr& error) {
  const fsdp::Failure failure = fsdp::failure_of(error);
  run.fail(failure.code, failure.reason);
}

ExitCode self_test(const std::string& part, fsdp::FailureNotice& notice) {
  const fsdp::WorldEnvironment world = fsdp::read_world_environment();
  fsdp::WorldEnvironment alone = world;  // a batch script may count tasks that were not started
  alone.local_world_size = alone.local_rank + 1;
  const at::Device device = fsdp::pick_device(fsdp::DeviceKind::kAuto, alone);
  fsdp::set_allocator(device);
  fsdp::set_memory_limit({}, device);
  const bool is_first = world.rank == 0;
  if (is_first) {
    std::cout << "fsdp-train on " << device.str() << ", " << fsdp::device_name(device) << '\n';
  }
  const bool passed = fsdp::run_self_test(part, world, device, notice, std::cout);
  if (is_first || !passed) {
    std::cout << '\n'
              << (passed ? "All passed."
                         : "Not all passed: this device does not compute as it should.")
              << std::endl;
  }
  return passed ? ExitCode::kOk : ExitCode::kRunFailed;
}

fsdp::RankRun* this_run = nullptr;

// Called by std::terminate: nothing in main() catches errors. If an error unwound the stack,
// destructors of communication would wait for other ranks, which wait for this one. NCCL's own
// watchdog throws on its thread when a peer is gone.
[[noreturn]] void fail_by_exception() {
  const std::exception_ptr error = std::current_exception();
  if (!error) std::abort();
  fail(*this_run, error);
}

// Called if a library calls exit(), as OpenMP does if it cannot create a thread. The library has
// printed the reason.
void fail_by_exit() {
  const std::string part = fsdp::start_up_part();
  this_run->fail(
      ExitCode::kRunFailed,
      "a library ended the process" + (part.empty() ? "" : " while it was " + part) +
          "; its own message stands above this one in the rank's log. If that is about threads, "
          "raise the limit on processes (ulimit -u, pids.max of the cgroup), or lower "
          "threads_per_rank");
}

// A checkpoint of a thousand ranks is read from thousands of files, all open at once.
void allow_many_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Restarts a trainer that was started by hand, with GOMP_SPINCOUNT, which fsdp-run sets for
// trainers. If the restart fails, the process continues without the variable. The loader calls this
// before any library starts, because libgomp reads the variable at its start, and libtorch takes
// half a second to start. getenv() finds no variables yet.
void choose_spin_count(int, char** argv, char** environment) {
  char* const chosen = fsdp::missing_spin_count(environment);
  if (chosen == nullptr) return;
  std::vector<char*> variables;
  for (; *environment != nullptr; ++environment) variables.push_back(*environment);
  variables.insert(variables.end(), {chosen, nullptr});
  execve("/proc/self/exe", argv, variables.data());
}

[[gnu::section(".preinit_array"), gnu::used]] auto* const before_libraries = &choose_spin_count;

}  // namespace

int main(int argc, char** argv) {
  fsdp::open_standard_streams();
  allow_many_open_files();
  CLI::App app{
      "Trains one run, as one of its ranks. Rank, world size and rendezvous come from the\n"
      "environment as torchrun, mpirun and srun set them.",
      "fsdp-train"};
  std::string spec_file;
  int attempt = 0;
  CLI::Option* spec = app.add_option("--spec", spec_file, "The run's run.yaml");
  app.add_option("--attempt", attempt, "Writes to attempt-N beside it (default: the first free N)")
      ->check(CLI::PositiveNumber);
  std::string log_level = "info";
  CLI::Option* level =
      app.add_option("--log-level", log_level, "The lowest level of diagnostics that go to stderr");
  level->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))->capture_default_str();
  std::string tested;
  app.add_flag("--self-test{all}", tested,
               "Trains nothing: checks kernels, steps and memory on this rank's device, and times "
               "it.\n--self-test=PART checks one part")
      ->check(CLI::IsMember(fsdp::self_test_parts()))
      ->excludes(spec);
  bool is_plan = false;
  app.add_flag(
         "--plan", is_plan,
         "Trains nothing: answers requests on its input, a line of JSON each, with the memory\n"
         "that a run will take (see contract/plan/run_plan.h)")
      ->excludes(spec);
  std::string results;
  app.add_option("--calibrate", results,
                 "Trains nothing: times the parts of the run's steps, for plans with this folder "
                 "of results")
      ->needs(spec);
  int rounds = 3;
  app.add_option("--rounds", rounds,
                 "How many times --calibrate times each piece. It keeps the medians")
      ->check(CLI::PositiveNumber)
      ->needs("--calibrate")
      ->capture_default_str();
  std::string prompt;
  CLI::Option* sample = app.add_option(
      "--sample", prompt,
      "Trains nothing: prints what the run's newest checkpoint answers to this prompt");
  sample->needs(spec);
  int64_t tokens = 128;
  app.add_option("--tokens", tokens, "The most tokens of --sample's answer")
      ->check(CLI::PositiveNumber)
      ->needs(sample)
      ->capture_default_str();
  std::string device = "auto";
  app.add_option("--device", device, "The device of --sample")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->needs(sample)
      ->capture_default_str();
  app.set_version_flag(
      "--version", [] { return fsdp::json_text(fsdp::trainer_build()); },
      "What it was built with, as JSON");
  try {
    app.parse(argc, argv);
    if (tested.empty() && !is_plan && spec_file.empty()) throw CLI::RequiredError("--spec");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kBadConfiguration);
  }
  const bool prints_result = !tested.empty() || !sample->empty();
  if (prints_result && level->empty()) log_level = "warning";
  fsdp::log_to_stderr(*fsdp::enum_from_name<fsdp::LogLevel>(log_level));
  // A file that reaches the size limit (ulimit -f) is then an error of the write, which names the
  // remedy.
  std::signal(SIGXFSZ, SIG_IGN);
  if (is_plan) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // only the program that started this one wants answers
    fsdp::answer_plan_requests(std::cin, std::cout);
    return static_cast<int>(ExitCode::kOk);
  }
  fsdp::RankRun run(spec_file, attempt);
  this_run = &run;
  std::set_terminate(fail_by_exception);
  std::atexit(fail_by_exit);
  ExitCode code = ExitCode::kOk;
  if (!tested.empty()) {
    code = self_test(tested, run.failure_notice());
  } else {
    fsdp::watch_start_up(fsdp::CommunicationSpec().start_up_timeout_s,
                         static_cast<int>(ExitCode::kRunFailed));
    code = !sample->empty()
               ? run.sample(prompt, tokens, *fsdp::enum_from_name<fsdp::DeviceKind>(device))
           : results.empty() ? run.run()
                             : run.calibrate(results, rounds);
  }
  // Other ranks may be gone: destructors of communication could wait for them.
  std::cout.flush();
  _exit(static_cast<int>(code));
}
