#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/real_runs.h"
#include "tests/free_port.h"

// Tests the errors of fsdp-train before its first step, and its starts from older checkpoints.
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string kThreads = "threads_per_rank: 1";

// A folder with the run.yaml of a tiny run and these keys. The key threads_per_rank replaces the
// tiny run's.
class RunFolder : public Workplace {
 public:
  explicit RunFolder(const std::string& keys) : Workplace("") { describe(keys); }

  void describe(const std::string& keys) const {
    std::string run = kTinyRun;
    const bool replaces_threads = keys.starts_with("threads_per_rank");
    run.replace(replaces_threads ? run.find(kThreads) : 1, replaces_threads ? kThreads.size() : 0,
                keys + (replaces_threads ? "" : ", "));
    std::ofstream(*this / "run.yaml") << run << '\n';
  }
  Ended train(const Variables& environment = {}) const {
    return Program(
               *this / ".",
               {FSDP_TRAIN_PROGRAM, "--spec", "run.yaml", "--attempt", std::to_string(++attempts_)},
               environment)
        .wait();
  }
  // Returns the events of the last attempt.
  std::vector<Event> events() const {
    return events_in(events_file(*this / ("attempt-" + std::to_string(attempts_)), 0));
  }
  std::string reason() const { return std::get<RunFailed>(events().back().body).reason; }
  void flip_bit(const std::string& name) const {
    const auto file = *this / ("checkpoints/" + name);
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
    stream.seekg(middle);
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(middle);
    stream.put(byte);
  }

 private:
  mutable int attempts_ = 0;
};

}  // namespace

TEST_CASE("more threads than any machine has are refused, from the environment too") {
  const RunFolder from_environment("threads_per_rank: null");
  const Ended ended = from_environment.train({{"OMP_NUM_THREADS", "1000000"}});
  CHECK(ended.status == 2);
  CHECK_THAT(from_environment.reason(),
             Contains("OMP_NUM_THREADS") && Contains("at least 1 and at most 4096"));
  const RunFolder from_key("threads_per_rank: 1000000");
  CHECK(from_key.train().status == 2);
  CHECK_THAT(from_key.reason(), Contains("'threads_per_rank': 1000000 is out of range"));
}

TEST_CASE("tokens beyond the vocabulary are refused before a launch, by the trainer alone too") {
  const std::string data = "data: {kind: tokens, train: tokens.npy, sequence_length: 16}";
  std::string run = kTinyRun;
  run.replace(run.find("data: {"), run.find("}", run.find("data: {")) + 1 - run.find("data: {"),
              data);
  const Workplace workplace("  - {name: only}\n", run, FSDP_TRAIN_PROGRAM);
  write_tokens(workplace / "tokens.npy", 4, 17, 1024);
  const std::string said = "holds the token 1024, but the model's vocabulary has 1024";
  const Ended refused = workplace.run();
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors,
             StartsWith("fsdp-run: ") && Contains("'data.train': ") && Contains(said));
  CHECK_FALSE(std::filesystem::exists(workplace.results()));

  std::ofstream(workplace / "run.yaml") << run << '\n';
  const Ended alone = Program(workplace / ".", {FSDP_TRAIN_PROGRAM, "--spec", "run.yaml"}).wait();
  CHECK(alone.status == 2);
  CHECK_THAT(alone.errors,
             StartsWith("fsdp-train: ") && Contains("tokens.npy: 'data.train': " + said));
  CHECK_FALSE(std::filesystem::exists(workplace / "attempt-1"));
}

TEST_CASE("a self-test that was set up wrongly ends with 2 and says what is wrong") {
  const Workplace folder("");
  const Ended ended =
      Program(folder / ".", {FSDP_TRAIN_PROGRAM, "--self-test"}, {{"RANK", "first"}}).wait();
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors, Contains("fsdp-train: ") && Contains("RANK"));
}

TEST_CASE("units gathered ahead are at most those that there are") {
  const RunFolder folder("strategy: {kind: fsdp, ranks: 1, prefetch: 1000000}");
  CHECK(folder.train().status == 0);
  CHECK(std::get<RunFinished>(folder.events().back().body).steps == 5);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // their libraries would have to be preloaded first
TEST_CASE("a thread that cannot be had ends the run with its remedy") {
  // A library that is refused a thread fails or hangs. In both cases the run ends with the cause.
  const RunFolder folder("threads_per_rank: 3, communication.start_up_timeout_s: 5");
  const Ended ended = folder.train({{"LD_PRELOAD", THREAD_LIMIT_LIBRARY}, {"THREAD_LIMIT", "1"}});
  INFO(ended.errors);
  CHECK(ended.status == 1);
  CHECK_THAT(folder.reason(), Contains("ulimit -u"));
}

TEST_CASE("a file that cannot be written is no lack of memory, whatever its name") {
  const RunFolder folder("checkpoint.every_steps: 1");
  const auto run = folder / "out of memory";
  std::filesystem::create_directories(run);
  std::filesystem::rename(folder / "run.yaml", run / "run.yaml");
  std::string said;
  SECTION("of events") {
    std::filesystem::create_directories(run / "attempt-1/events.rank0.jsonl");
    said = "events.rank0.jsonl: Is a directory";
  }
  SECTION("of a checkpoint") {
    std::ofstream(run / "checkpoints");
    said = "the checkpoint cannot be written";
  }
  const Ended ended =
      Program(run, {FSDP_TRAIN_PROGRAM, "--spec", (run / "run.yaml").string(), "--attempt", "1"},
              {})
          .wait();
  CHECK(ended.status == 1);
  CHECK_THAT(ended.errors, Contains("/out of memory/") && Contains(said));
}

TEST_CASE("a self-test in which something fails ends with 1") {
  const Workplace folder("");
  const Ended ended =
      Program(
          folder / ".", {FSDP_TRAIN_PROGRAM, "--self-test"},
          {{"LD_PRELOAD", THREAD_LIMIT_LIBRARY}, {"THREAD_LIMIT", "0"}, {"OMP_NUM_THREADS", "1"}})
          .wait(std::chrono::minutes(5));
  CHECK(ended.status == 1);
  CHECK_THAT(ended.output, Contains("FAIL") && Contains("Not all passed"));
}

TEST_CASE("a start that hangs ends within its time and says what it did last") {
  const RunFolder folder("threads_per_rank: 3, communication.start_up_timeout_s: 5");
  const Ended ended = folder.train(
      {{"LD_PRELOAD", THREAD_LIMIT_LIBRARY}, {"THREAD_LIMIT", "1"}, {"THREAD_LIMIT_HANGS", "1"}});
  INFO(ended.errors);
  CHECK(ended.status == 1);
  CHECK_THAT(folder.reason(), StartsWith("the start did not get past starting its threads within "
                                         "5 s; ") &&
                                  Contains("communication.start_up_timeout_s") &&
                                  Contains("ulimit -u"));
  CHECK_THAT(ended.errors, Contains(folder.reason()));
  CHECK(folder.events().back().time_unix_ms > 1'600'000'000'000);
}
#endif

TEST_CASE("a rank whose others never come says where it looked for them, and what to do") {
  const RunFolder folder("strategy: {kind: ddp, ranks: 2}, communication.rendezvous_timeout_s: 5");
  const std::string port = std::to_string(free_port());
  const Ended ended = folder.train({{"RANK", "1"},
                                    {"LOCAL_RANK", "1"},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", port}});
  INFO(ended.errors);
  CHECK(ended.status == 4);
  const auto events = events_in(events_file(folder / "attempt-1", 1));
  CHECK_THAT(std::get<RunFailed>(events.back().body).reason,
             Contains("127.0.0.1:" + port) && Contains("MASTER_ADDR") &&
                 Contains("communication.rendezvous_timeout_s"));
}

TEST_CASE("two attempts of one run removed each other's checkpoints") {
  const RunFolder folder("checkpoint: {every_steps: 2}");
  std::filesystem::create_directory(folder / "attempt-2");
  CHECK(folder.train().status == 1);
  CHECK(folder.reason() ==
        "attempt 2 of this run has begun, so attempt 1 ends and saves nothing more");
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints"));
}

TEST_CASE("a damaged checkpoint is never trained from") {
  const std::string keys = "checkpoint: {every_steps: 2, state_dict: sharded}";
  const RunFolder folder(keys);
  REQUIRE(folder.train().status == 0);
  folder.flip_bit("step-4/optimizer.rank0.safetensors");
  const auto damaged = folder / "checkpoints/step-4";

  folder.describe(keys + ", resume: checkpoints/step-4");
  CHECK(folder.train().status == 2);
  CHECK_THAT(folder.reason(), Contains("'resume': ") &&
                                  Contains((damaged / "optimizer.rank0.safetensors").string()) &&
                                  Contains("changed after it was written (checksum"));

  folder.describe(keys + ", resume: auto");
  CHECK(folder.train().status == 0);
  const auto started = std::get<RunStarted>(folder.events().front().body);
  CHECK(started.resumed_from_step == 2);
  CHECK_THAT(started.warning,
             StartsWith("the run resumes from step-2, because newer checkpoints are damaged: ") &&
                 Contains(damaged.string()));

  // The last attempt wrote step 4 again.
  CHECK(folder.train().status == 0);
  CHECK(std::get<RunStarted>(folder.events().front().body).resumed_from_step == 4);

  for (const std::string name : {"step-4", "step-2"}) {
    folder.flip_bit(name + "/weights.rank0.safetensors");
  }
  CHECK(folder.train().status == 2);
  CHECK_THAT(folder.reason(), Contains("'resume': auto finds no undamaged checkpoint: ") &&
                                  Contains("or begin anew with --rerun"));
}
