#include "base/files/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <system_error>

#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

mode_t mode_of(const std::filesystem::path& file) {
  struct stat status {};
  REQUIRE(lstat(file.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

TEST_CASE("a file that is replaced keeps its mode, and a file beside it stays") {
  const TemporaryFolder folder;
  folder.write("table", "earlier");
  folder.write("table.new", "somebody's");
  REQUIRE(chmod((folder / "table").c_str(), 0604) == 0);
  write_whole_file(folder / "table", "text");
  CHECK(text_of(folder / "table") == "text");
  CHECK(mode_of(folder / "table") == 0604);
  CHECK(text_of(folder / "table.new") == "somebody's");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"table", "table.new"});
}

TEST_CASE("a new file has the mode that the user's mask leaves") {
  const TemporaryFolder folder;
  const mode_t before = umask(027);
  write_whole_file(folder / "table", "text");
  umask(before);
  CHECK(mode_of(folder / "table") == 0640);
}

TEST_CASE("a database of SQLite is not replaced, also behind a link") {
  const TemporaryFolder folder;
  const std::string database = std::string("SQLite format 3\0", 16) + "and more";
  folder.write("results.sqlite", database);
  std::filesystem::create_symlink("results.sqlite", folder / "link");
  for (const char* name : {"results.sqlite", "link"}) {
    CHECK_THROWS_WITH(write_whole_file(folder / name, "text"),
                      Catch::Matchers::EndsWith("/results.sqlite: is a database and is not "
                                                "replaced; name another file"));
  }
  CHECK(text_of(folder / "results.sqlite") == database);
}

TEST_CASE("a file with the longest name can be written") {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  write_whole_file(folder / name, "text");
  CHECK(text_of(folder / name) == "text");
}

TEST_CASE("whoever has the earlier file open still reads that") {
  const TemporaryFolder folder;
  std::ifstream reader(folder.write("table", "earlier"));
  write_whole_file(folder / "table", "text");
  std::string read;
  reader >> read;
  CHECK(read == "earlier");
}

TEST_CASE("a link stays, and the file that it means is replaced") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "below");
  folder.write("below/table", "earlier");
  std::filesystem::create_symlink("below/table", folder / "second");
  std::filesystem::create_symlink("second", folder / "first");
  write_whole_file(folder / "first", "text");
  CHECK(std::filesystem::read_symlink(folder / "first") == "second");
  CHECK(std::filesystem::read_symlink(folder / "second") == "below/table");
  CHECK(text_of(folder / "below/table") == "text");
  CHECK(names_in(folder / "below") == std::vector<std::string>{"table"});

  std::filesystem::create_symlink("below/later", folder / "to_nothing");
  write_whole_file(folder / "to_nothing", "new");
  CHECK(std::filesystem::is_symlink(folder / "to_nothing"));
  CHECK(text_of(folder / "below/later") == "new");
}

TEST_CASE("a link in the place of a file of the results is replaced, not followed") {
  const TemporaryFolder folder;
  folder.write("precious", "not yours");
  std::filesystem::create_symlink("precious", folder / "run.yaml");
  replace_file(folder / "run.yaml", "text");
  CHECK(text_of(folder / "precious") == "not yours");
  CHECK_FALSE(std::filesystem::is_symlink(folder / "run.yaml"));
  CHECK(text_of(folder / "run.yaml") == "text");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"precious", "run.yaml"});
}

TEST_CASE("links that lead in a circle are an error") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("one", folder / "other");
  std::filesystem::create_symlink("other", folder / "one");
  CHECK_THROWS_AS(write_whole_file(folder / "one", "text"), std::system_error);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"one", "other"});
}

TEST_CASE("a pipe is written to and stays a pipe") {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  for (const char* name : {"pipe", "link"}) {
    write_whole_file(folder / name, "text");
    std::array<char, 16> bytes{};
    CHECK(read(reader, bytes.data(), bytes.size()) == 4);
    CHECK(std::string_view(bytes.data()) == "text");
  }
  close(reader);
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"link", "pipe"});
}

TEST_CASE("a file that a process has open is added to, not replaced") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("output", "before\n");
  const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND);
  REQUIRE(descriptor >= 0);
  // /dev/stdout is also a link to such a file, /proc/self/fd/1.
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(descriptor), folder / "stdout");
  write_whole_file(folder / "stdout", "text\n");
  REQUIRE(write(descriptor, "after\n", 6) == 6);
  close(descriptor);
  CHECK(text_of(file) == "before\ntext\nafter\n");
}

TEST_CASE("what cannot be written leaves nothing") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "place");
  CHECK_THROWS_WITH(write_whole_file(folder / "place", "text"), Catch::Contains("place cannot be"));
  CHECK_THROWS_AS(write_whole_file(folder / "no/folder/table", "text"), std::system_error);
  CHECK_THROWS_AS(write_whole_file(folder / std::string(256, 'n'), "text"), std::system_error);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"place"});
  CHECK(names_in(folder / "place").empty());
}

}  // namespace
}  // namespace fsdp
