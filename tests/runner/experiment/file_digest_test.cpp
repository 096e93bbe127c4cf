#include "base/files/file_digest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "base/text/config_error.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;

void set_modified(const std::filesystem::path& file, int64_t seconds) {
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("a file's digest is XXH3's, as xxh128sum prints it") {
  const TemporaryFolder folder;
  CHECK(file_digest(folder.write("empty", "")) == "99aa06d3014798d86001c324468d497f");
  CHECK(file_digest(folder.write("a", "a")) != file_digest(folder.write("b", "b")));
  const std::string large(3'000'000, 'x');
  CHECK(file_digest(folder.write("large", large)) == file_digest(folder.write("same", large)));
  CHECK(file_digest(folder.write("large", large)) !=
        file_digest(folder.write("more", large + 'y')));
  CHECK_THROWS_AS(file_digest(folder.path() / "missing"), ConfigError);
  CHECK_THROWS_AS(file_digest(folder.path()), ConfigError);
}

TEST_CASE("a file that is written to while it is hashed has no digest") {
  const TemporaryFolder folder;
  const auto file = folder.write("growing", std::string(1 << 20, 'x'));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) std::ofstream(file, std::ios::app) << 'y';
  });
  std::string problem;
  for (int i = 0; i < 200'000 && problem.empty(); ++i) {
    try {
      hash_file(file);
    } catch (const ConfigError& error) {
      problem = error.what();
    }
  }
  stop = true;
  writer.join();
  CHECK_THAT(problem, Contains(file.string() + ": changed each time while it was read"));
}

TEST_CASE("a file that was just written is not settled, whatever time of modification it has") {
  const TemporaryFolder folder;
  const auto file = folder.write("new", "x");
  set_modified(file, 1'000);
  CHECK_FALSE(hash_file(file).is_settled);
  CHECK(hash_file("/bin/sh").is_settled);
}

TEST_CASE("files of one path, size and time of modification have states of their own") {
  const TemporaryFolder folder;
  for (const std::string name : {"a", "b"}) {
    std::filesystem::create_directory(folder / name);
    folder.write(name + "/tokens.npy", "from " + name);
    set_modified(folder / name / "tokens.npy", 1'000);
  }
  const HashedFile before = hash_file(folder / "a/tokens.npy");
  std::filesystem::rename(folder / "a", folder / "c");
  std::filesystem::rename(folder / "b", folder / "a");
  const HashedFile after = hash_file(folder / "a/tokens.npy");
  CHECK(after.state.path == before.state.path);
  CHECK(after.state.size_bytes == before.state.size_bytes);
  CHECK(after.state.modified_unix_ns == before.state.modified_unix_ns);
  CHECK(after.state != before.state);
  CHECK(after.digest != before.digest);
}

}  // namespace fsdp
