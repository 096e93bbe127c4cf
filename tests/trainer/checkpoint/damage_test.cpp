#include <sys/resource.h>

#include <cerrno>
#include <csignal>

#include "tests/contract/input_fixtures.h"
#include "tests/trainer/checkpoint/written_checkpoint.h"
#include "trainer/checkpoint/output_file.h"

namespace fsdp::damage_test {

using Catch::Contains;

// A run's folder with complete checkpoints of steps 1 and 2.
struct TwoCheckpoints : CheckpointedRun {
  explicit TwoCheckpoints(StateDict state_dict = StateDict::kSharded) {
    for (const int64_t step : {1, 2}) {
      write({.step = step,
             .world_size = 2,
             .shard_ranks = 2,
             .state_dict = state_dict,
             .seed = step});
    }
  }

  // Returns the error of reading step 2. The newest whole checkpoint must be step 1.
  std::string refusal_of_newer() const {
    CHECK(newest_checkpoint(paths) == paths.checkpoint(1));
    return refusal([&] { CheckpointReader(paths.checkpoint(2)); });
  }

  std::filesystem::path newer(const std::string& name) const { return paths.checkpoint(2) / name; }
};

TEST_CASE(
    "a checkpoint with a file cut short or gone is refused, and the one before it is newest") {
  const TwoCheckpoints written;
  CHECK(newest_checkpoint(written.paths) == written.paths.checkpoint(2));
  const auto file = written.newer("optimizer.rank1.safetensors");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  CHECK_THAT(written.refusal_of_newer(),
             Contains(file.string() + ": holds") && Contains("resume from another"));
  std::filesystem::remove(file);
  CHECK_THAT(written.refusal_of_newer(), Contains(file.string()) && Contains("No such file"));
}

TEST_CASE("a checkpoint without trainer.json, or with another's, is refused") {
  const TwoCheckpoints written;
  const auto file = written.newer("trainer.json");
  const auto refusal_of = [&](const std::string& text) {
    std::ofstream(file) << text;
    return written.refusal_of_newer();
  };
  CHECK_THAT(refusal_of("{\"form"), Contains("trainer.json: is not JSON"));
  CHECK_THAT(refusal_of("{}"), Contains("'format': null"));
  CHECK_THAT(refusal_of(R"({"format":2})"),
             Contains("2 is not a format") && Contains("allowed: 1"));
  CHECK_THAT(refusal_of(R"({"format":1})"), Contains("'step': is missing"));
  CHECK_THAT(refusal_of(R"({"format":1,"step":-1})"), Contains("'step': -1 is not a whole number"));
  std::filesystem::remove(file);
  CHECK_THAT(written.refusal_of_newer(), Contains("is no complete checkpoint"));
}

TEST_CASE("a state that no rank wrote in full is refused when it is read") {
  const CheckpointedRun run;
  run.write({.world_size = 3, .shard_ranks = 3, .rank_without_pieces = 1});
  const CheckpointReader reader(run.paths.checkpoint(1));
  const Parameter& parameter = *run.parameters[3];
  const auto message = [&](const std::string& state) {
    return refusal([&] { reader.read(state, parameter, 0, at::empty({parameter.numel()})); });
  };
  CHECK_THAT(message("weights"), Contains("lacks element") && Contains("'weights/head'"));
  CHECK_THAT(message("exp_avg"), Contains("'exp_avg/head'"));
  CHECK_THAT(message("momentum"), Contains("lacks element 0 of 'momentum/head'"));
}

TEST_CASE("a checkpoint of another model is refused when it is read") {
  const StateDict state_dict = GENERATE(StateDict::kSharded, StateDict::kFull);
  const TwoCheckpoints written(state_dict);
  const CheckpointReader reader(written.paths.checkpoint(2));
  const Parameter larger({.tensors = {{"head", {1001}}}});
  CHECK_THAT(refusal([&] { reader.read("exp_avg", larger, 0, at::empty({5})); }),
             Contains("1000 elements; the model's has 1001"));
  CHECK_THAT(refusal([&] { reader.read("weights", larger, 0, at::empty({5})); }),
             Contains("1000") && Contains("1001"));
}

TEST_CASE("a piece file's metadata is read, and refused when it is not as written") {
  const TemporaryFolder folder;
  const auto file_with = [&](const std::string& metadata) {
    const std::string header = R"({"__metadata__":)" + metadata + "}";
    return folder.write("weights.rank0.safetensors", safetensors_bytes(header, ""));
  };
  const auto read_file = [](const std::filesystem::path& file) {
    return read_safetensors(std::make_shared<const InputFile>(file));
  };
  CHECK(read_file(file_with(R"({"elements:a":"7"})")).metadata ==
        std::map<std::string, std::string>{{"elements:a", "7"}});
  CHECK(read_file(file_with("null")).metadata.empty());
  CHECK_THAT(refusal([&] { read_file(file_with(R"({"a":7})")); }),
             Contains("metadata 'a' that is not text"));
  CHECK_THAT(refusal([&] { read_file(file_with("7")); }), Contains("not an object"));
  StoredPieces pieces;
  CHECK_THAT(refusal([&] { pieces.add_file(file_with(R"({"elements:a":"-7"})")); }),
             Contains("that is no count: -7"));
  pieces.add_file(file_with(R"({"elements:a":"7"})"));
  CHECK_THAT(refusal([&] { pieces.add_file(file_with(R"({"elements:a":"8"})")); }),
             Contains("another model") && Contains("8 elements instead of 7"));
}

// Limits the size of files during its lifetime. Longer writes fail as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

TEST_CASE("a write that fails says why and leaves earlier checkpoints as they were") {
  const StateDict state_dict = GENERATE(StateDict::kSharded, StateDict::kFull);
  // Writing fails in the header, in the data, or near the end.
  const rlim_t limit = GENERATE(100, 1500, 4200);
  CAPTURE(state_dict, limit);
  const TwoCheckpoints written(state_dict);
  const auto write = [&](int64_t step) {
    const FileSizeLimit limited(limit);
    written.write({.step = step, .state_dict = state_dict, .seed = 9, .keep = 1});
  };
  for (const int64_t step : {2, 3}) {
    CHECK_THROWS_WITH(write(step), Contains("cannot be written; ") && Contains("File too large") &&
                                       Contains("ulimit -f") && Contains(".partial"));
  }
  CHECK(newest_checkpoint(written.paths) == written.paths.checkpoint(2));
  CHECK(CheckpointReader(written.paths.checkpoint(2)).state().sequences == 2);
  written.check(1, 1);
  written.check(2, 1);

  remove_partial_checkpoints(written.paths);
  CHECK(written.names() == std::vector<std::string>{"step-1", "step-2"});
}

TEST_CASE("a full disk is told from other errors") {
  CHECK_THROWS_WITH(fail_to_write("/results/x", ENOSPC),
                    Contains("/results/x") && Contains("No space left") && Contains("free space"));
  CHECK_THROWS_WITH(fail_to_write("/results/x", EDQUOT),
                    Contains("quota exceeded") && Contains("free space"));
  CHECK_THROWS_WITH(fail_to_write("/results/x", EACCES), Contains("allow this user"));
}

TEST_CASE("a folder that cannot be made is an error with its path") {
  const TemporaryFolder folder;
  const auto in_the_way = folder.write("checkpoints", "a file");
  const auto world = simulated_world(1);
  const auto backend = make_backend(at::kCPU);
  CHECK_THROWS_WITH(
      CheckpointWriter(RunPaths(folder.path()), 1, *world[0], 1, *backend),
      Contains((in_the_way / "step-1.partial").string()) && Contains("Not a directory"));
}

}  // namespace fsdp::damage_test
