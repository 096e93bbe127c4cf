#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <memory>

#include "tests/end_to_end/real_runs.h"
#include "tests/free_port.h"

// One of several ranks fails, and no launcher ends the others. They learn of it from that rank.
// A sanitizer's library would have to be preloaded before ours.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;

namespace {

constexpr int kRows = 100'000;

// A run of a million steps whose ranks are plain processes. Each rank has its own copy of the data.
// One rank fails.
class FailingRun : public Workplace {
 public:
  FailingRun(int ranks, int failing, const std::string& keys = "")
      : Workplace(""), ranks_(ranks), failing_(failing) {
    for (int rank = 0; rank < ranks; ++rank) {
      write_tokens(data(rank), kRows, 17, 3);
      std::ofstream(spec(rank))
          << "{device: cpu, threads_per_rank: 1, batch: {size_per_rank: 1}, "
             "train: {steps: 1000000, warmup_steps_excluded: 0}, strategy: {kind: fsdp, ranks: "
          << ranks << "}, data: {kind: tokens, sequence_length: 16, train: " << data(rank).string()
          << "}, model: {config: {num_hidden_layers: 2, hidden_size: 32, intermediate_size: 64, "
             "num_attention_heads: 2, num_key_value_heads: 2, vocab_size: 1024}}, "
          << keys << "}\n";
    }
  }

  // The most blocks of 512 bytes that the failing rank may write to a file; 0: no limit.
  int most_file_blocks = 0;

  // `never_ends`: the process of the failing rank never exits.
  void start(bool never_ends) {
    const std::string port = std::to_string(free_port());
    for (int rank = 0; rank < ranks_; ++rank) {
      Variables environment = as_torchrun(rank, ranks_, port);
      if (rank == failing_) {
        environment["LD_PRELOAD"] = FAILING_RANK_LIBRARY;
        environment["NO_MEMORY_WHEN"] = (*this / "no_memory").string();
        if (never_ends) environment["NEVER_ENDS"] = "1";
      }
      const auto home = *this / ("home" + std::to_string(rank));
      std::filesystem::create_directories(home);
      const std::string limit = rank == failing_ && most_file_blocks > 0
                                    ? "ulimit -f " + std::to_string(most_file_blocks) + " && "
                                    : "";
      processes_.push_back(std::make_unique<Program>(
          home,
          std::vector<std::string>{"/bin/sh", "-c", limit + "exec \"$0\" \"$@\"",
                                   FSDP_TRAIN_PROGRAM, "--spec", spec(rank).string()},
          environment));
    }
    for (int rank = 0; rank < ranks_; ++rank) wait_for_step(events(rank), 1);
  }

  // From now on the failing rank gets no more memory.
  void take_memory() const { std::ofstream(*this / "no_memory") << "now\n"; }
  void cut_data() const { std::filesystem::resize_file(data(failing_), 1000); }

  const Program& process(int rank) const { return *processes_.at(rank); }
  Ended wait(int rank) { return processes_.at(rank)->wait(); }
  std::filesystem::path events(int rank) const { return events_file(*this / "attempt-1", rank); }
  RunFailed last_words(int rank) const {
    return std::get<RunFailed>(events_in(events(rank)).back().body);
  }

  // All other ranks end within Program::wait, which is far below communication.timeout_s.
  void check_that_the_others_end_for(const std::string& reason) {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == failing_) continue;
      const Ended ended = wait(rank);
      INFO("rank " << rank << ": " << ended.errors);
      CHECK(ended.status == 4);
      CHECK(last_words(rank).exit_code == 4);
      CHECK_THAT(last_words(rank).reason, StartsWith(reason));
      CHECK_THAT(ended.errors, Contains("fsdp-train: " + reason));
    }
  }

 private:
  std::filesystem::path data(int rank) const {
    return *this / ("rank" + std::to_string(rank) + ".npy");
  }
  std::filesystem::path spec(int rank) const {
    return *this / ("rank" + std::to_string(rank) + ".yaml");
  }

  int ranks_, failing_;
  std::vector<std::unique_ptr<Program>> processes_;
};

const std::string kOutOfMemory = " failed: CPU out of memory. Tried to allocate ";

}  // namespace

TEST_CASE("ranks end when one of them runs out of memory, though its process stays") {
  struct Case {
    int ranks, failing;
  };
  const auto [ranks, failing] = GENERATE(Case{2, 1}, Case{3, 0}, Case{4, 2});
  FailingRun run(ranks, failing);
  run.start(/*never_ends=*/true);
  run.take_memory();
  run.check_that_the_others_end_for("rank " + std::to_string(failing) + " of " +
                                    std::to_string(ranks) + kOutOfMemory);
  CHECK(run.last_words(failing).exit_code == 3);
}

TEST_CASE("ranks end when one of them fails in an evaluation, though its process stays") {
  // The evaluation of 90,000 rows still runs long after the first step's event.
  FailingRun run(2, 1, "evaluation: {every_steps: 1, fraction: 0.9}");
  run.start(/*never_ends=*/true);
  run.take_memory();
  run.check_that_the_others_end_for("rank 1 of 2" + kOutOfMemory);
}

TEST_CASE("ranks end when one of them fails in a checkpoint, though its process stays") {
  FailingRun run(3, 2, "checkpoint: {every_steps: 5, at_end: false}");
  run.most_file_blocks = 128;  // room for events, not for the optimizer's state
  run.start(/*never_ends=*/true);
  run.check_that_the_others_end_for("rank 2 of 3 failed: ");
  CHECK_THAT(run.last_words(2).reason, Contains("checkpoints"));
}

TEST_CASE("ranks end when the data of one of them is cut, though its process stays") {
  FailingRun run(2, 0);
  run.start(/*never_ends=*/true);
  run.cut_data();
  run.check_that_the_others_end_for("rank 0 of 2 failed: ");
  CHECK(run.last_words(0).exit_code == 2);
}

TEST_CASE("ranks whose connection to a failing rank breaks name that rank's failure") {
  FailingRun run(3, 0);  // rank 0 also serves the key-value store
  run.start(/*never_ends=*/false);
  run.take_memory();
  CHECK(run.wait(0).status == 3);
  run.check_that_the_others_end_for("rank 0 of 3" + kOutOfMemory);
}

TEST_CASE("ranks end when one of them is killed") {
  const int killed = GENERATE(0, 2);
  FailingRun run(3, killed);
  run.start(/*never_ends=*/false);
  run.process(killed).send(SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == killed) continue;
    CHECK(run.wait(rank).status == 4);
    CHECK_THAT(
        run.last_words(rank).reason,
        Matches("(rank \\d of 3 failed: )?\\w+( of unit \\d)? failed on rank \\d of 3: .*") ||
            StartsWith("rank " + std::to_string(killed) +
                       " of 3 failed: its process ended without a message"));
  }
}

TEST_CASE("a rank that hangs ends nobody, and is an error of the others, which say what they did") {
  const int suspended = GENERATE(0, 1);  // rank 0 serves the key-value store
  FailingRun run(2, suspended, "communication: {timeout_s: 4}");
  run.start(/*never_ends=*/false);
  run.process(suspended).send(SIGSTOP);
  const int other = 1 - suspended;
  const Ended ended = run.wait(other);
  CHECK(ended.status == 4);
  CHECK(run.last_words(other).exit_code == 4);
  CHECK_THAT(
      run.last_words(other).reason,
      Matches("(all_gather of unit \\d|reduce_scatter of unit \\d|all_reduce) on rank \\d of 2 "
              "took longer than 4 s; .*raise communication.timeout_s.*"));
  CHECK_THAT(ended.errors, Contains(run.last_words(other).reason));
}
#endif
