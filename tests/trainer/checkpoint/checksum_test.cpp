#include "trainer/checkpoint/checksum.h"

#include <numeric>

#include "base/files/digest.h"
#include "tests/contract/input_fixtures.h"
#include "tests/trainer/checkpoint/written_checkpoint.h"
#include "trainer/checkpoint/output_file.h"

namespace fsdp::checksum_test {

using Catch::Contains;
using std::filesystem::path;

std::string text_of(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_text(const path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

struct Checkpoint : CheckpointedRun {
  explicit Checkpoint(StateDict state_dict) {
    write({.world_size = 2, .shard_ranks = 2, .state_dict = state_dict, .max_file_bytes = 1000});
  }

  path at() const { return paths.checkpoint(1); }
  // Checks the contents as two ranks. Returns the first error, or "".
  std::string damage() const {
    for (const int rank : {0, 1}) {
      try {
        check_contents(at(), read_trainer_state(at()), rank, 2);
      } catch (const ConfigError& error) {
        return error.what();
      }
    }
    return "";
  }
  // Returns damage() while one bit of this byte of the file is flipped.
  std::string damage_by_flip(const path& file, size_t byte) const {
    const std::string whole = text_of(file);
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1);
    write_text(file, damaged);
    const std::string found = damage();
    write_text(file, whole);
    return found;
  }
};

TEST_CASE("the checksum is XXH3-128") {
  CHECK(text_digest("") == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("one flipped bit of any file of a checkpoint is found, and the file named") {
  const StateDict state_dict = GENERATE(StateDict::kFull, StateDict::kSharded);
  const Checkpoint checkpoint(state_dict);
  REQUIRE(checkpoint.damage().empty());
  const auto names = names_in(checkpoint.at());
  REQUIRE(names.size() >= 5);
  for (const std::string& name : names) {
    const path file = checkpoint.at() / name;
    const size_t size = std::filesystem::file_size(file);
    std::vector<size_t> bytes{0, size / 2, size - 1};
    if (name == kTrainerStateName && state_dict == StateDict::kSharded) {
      bytes.resize(size);
      std::iota(bytes.begin(), bytes.end(), size_t{0});
    }
    for (const size_t byte : bytes) {
      CAPTURE(name, byte);
      const std::string damage = checkpoint.damage_by_flip(file, byte);
      CHECK_FALSE(damage.empty());
      // A flip in trainer.json may be in another file's checksum.
      if (name != kTrainerStateName) CHECK_THAT(damage, Contains(file.string()));
    }
  }
  const path last = checkpoint.at() / "optimizer.rank1.safetensors";
  CHECK_THAT(checkpoint.damage_by_flip(last, std::filesystem::file_size(last) - 1),
             Contains("changed after it was written (checksum") && Contains("written: ") &&
                 Contains("resume from another"));
}

TEST_CASE("a checkpoint of a version that wrote no checksums is read") {
  const Checkpoint checkpoint(StateDict::kSharded);
  const path file = checkpoint.at() / kTrainerStateName;
  std::string text = text_of(file);
  for (size_t at = text.find(",\n"); at != std::string::npos; at = text.find(",\n", at + 1)) {
    const size_t key = text.find('"', at);
    const size_t end = text.find('\n', key);
    if (text.compare(key, 10, "\"xxh3_128\"") == 0) text.erase(at, end - at);
  }
  REQUIRE_THAT(text, !Contains("xxh3_128"));
  write_text(file, text);
  CHECK(checkpoint.damage().empty());
  CHECK(read_trainer_state(checkpoint.at()).files.size() == 4);
}

TEST_CASE("a file that was written out of order has the checksum of its bytes") {
  const TemporaryFolder folder;
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  OutputFile file(folder.path() / "file");
  file.write(0, bytes("one "));
  file.write(8, bytes("three"));
  file.write(4, bytes("two "));
  CHECK(file.finish() == text_digest("one two three"));
  CHECK(checksum_of_file(folder.path() / "file") == text_digest("one two three"));
}

}  // namespace fsdp::checksum_test
