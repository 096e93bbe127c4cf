#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "tests/end_to_end/real_runs.h"
#include "tests/free_port.h"

// Ranks started by hand with different specifications.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// A folder with a run.yaml for each rank.
class Ranks : public Workplace {
 public:
  explicit Ranks(int count) : Workplace(""), count_(count) {}

  // Describes the tiny run, with `sections` in place of its own. Each line is a section.
  void describe(int rank, const std::string& sections) const {
    std::map<std::string, std::string> run;
    const auto add = [&](const std::string& text) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) run[line.substr(0, line.find(':'))] = line;
    };
    add("device: cpu\nthreads_per_rank: 1\ntrain: {steps: 5, warmup_steps_excluded: 0}\n"
        "data: {sequence_length: 16, train: " +
        few_games() +
        "}\nbatch: {size_per_rank: 1}\n"
        "model: {config: {num_hidden_layers: 2, hidden_size: 32, intermediate_size: 64, "
        "num_attention_heads: 2, num_key_value_heads: 2, vocab_size: 1024}}\n"
        "strategy: {kind: ddp, ranks: " +
        std::to_string(count_) + "}");
    add(sections);
    std::ofstream file(file_of(rank));
    for (const auto& [section, line] : run) file << line << '\n';
  }

  // Trains with the sections `last` for the last rank and `usual` for all others.
  std::vector<Ended> train(const std::string& usual, const std::string& last) const {
    const std::string port = std::to_string(free_port());
    std::vector<std::unique_ptr<Program>> ranks;
    for (int rank = 0; rank < count_; ++rank) {
      const bool is_last = rank == count_ - 1;
      describe(rank, is_last ? last : usual);
      std::vector<std::string> command{FSDP_TRAIN_PROGRAM, "--spec", file_of(rank).string()};
      const std::vector<std::string>& more = is_last ? last_arguments : arguments;
      command.insert(command.end(), more.begin(), more.end());
      const auto home = *this / ("home" + std::to_string(rank));  // for its output files
      std::filesystem::create_directories(home);
      ranks.push_back(std::make_unique<Program>(home, command, as_torchrun(rank, count_, port)));
    }
    std::vector<Ended> ended;
    for (const auto& rank : ranks) ended.push_back(rank->wait());
    return ended;
  }

  std::vector<std::string> arguments{}, last_arguments{};

 private:
  std::filesystem::path file_of(int rank) const {
    return *this / ("rank" + std::to_string(rank) + ".yaml");
  }
  int count_;
};

void check_refused(const std::vector<Ended>& ranks, const std::string& key,
                   const std::string& problem) {
  for (const Ended& rank : ranks) {
    INFO(rank.errors);
    CHECK(rank.status == 2);
    CHECK_THAT(rank.errors, Contains("fsdp-train: '" + key + "': " + problem));
    CHECK_THAT(rank.errors, Contains("; start every rank with the same ") ||
                                Contains("; give every rank files of the same contents"));
    CHECK_THAT(rank.errors, !Contains("step 1 of"));
  }
}

void check_finished(const std::vector<Ended>& ranks) {
  for (const Ended& rank : ranks) {
    INFO(rank.errors);
    CHECK(rank.status == 0);
  }
}

void flip_last_byte(const std::filesystem::path& file) {
  std::string text = text_of(file);
  text.back() ^= 1;
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("ranks of which one has another key are refused by its name") {
  struct Difference {
    std::string key, usual, other, problem;
  };
  const auto difference =
      GENERATE(Difference{"train.seed", "", "train: {steps: 5, warmup_steps_excluded: 0, seed: 7}",
                          "has 7, rank 0 has 1"},
               Difference{"checkpoint.every_steps", "checkpoint: {every_steps: 2}", "",
                          "has null, rank 0 has 2"},
               Difference{"environment", "", "environment: [A=b]", "has [\"A=b\"], rank 0 has []"});
  const int count = GENERATE(2, 4);
  const Ranks ranks(count);
  check_refused(ranks.train(difference.usual, difference.other), difference.key,
                "rank " + std::to_string(count - 1) + " " + difference.problem);
  CHECK_FALSE(std::filesystem::exists(ranks / "attempt-1"));
}

TEST_CASE("ranks of which one writes another attempt are refused") {
  Ranks ranks(2);
  ranks.last_arguments = {"--attempt", "7"};
  check_refused(ranks.train("", ""), "--attempt", "rank 1 has 7, rank 0 has not given");
}

TEST_CASE("ranks of which one reads other contents are refused by the key of the file") {
  Ranks ranks(2);
  const auto in = [&](const std::string& name) { return (ranks / name).string(); };
  for (const std::string name : {"a", "b"}) {
    std::filesystem::create_directory(ranks / name);
    write_tokens(ranks / (name + "/tokens.npy"), 64, 17, name == "a" ? 3 : 4);
    const std::string shipped = FSDP_EXPERIMENTS_FOLDER "/data/chess/tokenizer.model";
    std::ofstream(ranks / (name + "/tokenizer.model"), std::ios::binary)
        << text_of(shipped) << (name == "a" ? "" : std::string("\x9a\x06\0", 3));  // unknown field
  }
  std::filesystem::last_write_time(ranks / "b/tokens.npy",
                                   std::filesystem::last_write_time(ranks / "a/tokens.npy"));
  const std::string tokens = "data: {kind: tokens, sequence_length: 16, train: ";
  SECTION("training data") {
    const auto with = [&](const std::string& file) { return tokens + in(file) + "}"; };
    check_refused(ranks.train(with("a/tokens.npy"), with("b/tokens.npy")), "data.train",
                  "rank 1 reads " + in("b/tokens.npy") + " (contents ");
  }
  SECTION("tokenizer") {
    const auto with = [&](const std::string& file) {
      return "data: {sequence_length: 16, train: " + few_games() + ", tokenizer: " + in(file) + "}";
    };
    check_refused(ranks.train(with("a/tokenizer.model"), with("b/tokenizer.model")),
                  "data.tokenizer", "rank 1 reads " + in("b/tokenizer.model") + " (contents ");
  }
  SECTION("a key that names a file on one rank only") {
    check_refused(ranks.train("", "data: {sequence_length: 16, train: " + few_games() +
                                      ", tokenizer: " + in("a/tokenizer.model") + "}"),
                  "data.tokenizer", "rank 1 has a path, rank 0 has null");
  }
}

TEST_CASE("ranks of which one begins from other weights are refused") {
  const Ranks ranks(2);
  check_finished(ranks.train("checkpoint: {every_steps: 2, at_end: false}",
                             "checkpoint: {every_steps: 2, at_end: false}"));
  const auto checkpoints = ranks / "checkpoints";
  SECTION("weights") {
    std::filesystem::copy(checkpoints / "step-4", checkpoints / "other");
    flip_last_byte(checkpoints / "other/model.safetensors");
    check_refused(
        ranks.train("model: {source: checkpoints/step-4}", "model: {source: checkpoints/other}"),
        "model.source", "rank 1 reads " + (checkpoints / "other/model.safetensors").string());
  }
  SECTION("another checkpoint") {
    for (const Ended& rank :
         ranks.train("resume: checkpoints/step-2", "resume: checkpoints/step-4")) {
      INFO(rank.errors);
      CHECK(rank.status == 2);
      CHECK_THAT(rank.errors,
                 Contains("'resume': ") &&
                     Contains("step-2: is another checkpoint on rank 1 than on rank 0"));
    }
  }
}

TEST_CASE("ranks that read the same contents at other paths run") {
  const Ranks ranks(2);
  write_tokens(ranks / "a.npy", 64, 17, 3);
  std::filesystem::copy(ranks / "a.npy", ranks / "b.npy");
  std::filesystem::create_symlink(ranks / "a.npy", ranks / "link.npy");
  const auto with = [&](const std::string& name) {
    return "data: {kind: tokens, sequence_length: 16, train: " + (ranks / name).string() + "}";
  };
  check_finished(ranks.train(with("a.npy"), with("b.npy")));
  check_finished(ranks.train(with("a.npy"), with("link.npy")));
}
