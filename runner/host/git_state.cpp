#include "runner/host/git_state.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

namespace fsdp {
namespace {

// The lines of `git status --porcelain=v2 --branch`: "# branch.oid <commit>", other headings, and
// one for each file that differs.
GitState parse(const std::string& output) {
  constexpr std::string_view kCommit = "# branch.oid ";
  GitState state{.commit = "", .dirty = false};
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kCommit)) state.commit = line.substr(kCommit.size());
    if (!line.starts_with('#')) state.dirty = true;
  }
  const bool has_commit = !state.commit.empty() && state.commit != "(initial)";
  return has_commit ? state : GitState{};
}

}  // namespace

GitQuery::GitQuery(const std::filesystem::path& folder) : asked_(std::chrono::steady_clock::now()) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words{
      "git",    "--no-optional-locks", "-C",       folder.string(),
      "status", "--porcelain=v2",      "--branch", "--untracked-files=no"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (posix_spawnp(&process_, "git", &actions, nullptr, arguments.data(), environ) != 0) {
    process_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
}

GitQuery::~GitQuery() {
  if (output_ >= 0) close(output_);
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

bool GitQuery::has_ended_well() {
  int status = 0;
  if (process_ < 0 || waitpid(process_, &status, 0) != process_) return false;
  process_ = -1;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

GitState GitQuery::result(std::chrono::milliseconds limit) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  std::string output;
  while (process_ >= 0) {
    const auto left = asked_ + limit - std::chrono::steady_clock::now();
    pollfd readable{.fd = output_, .events = POLLIN, .revents = 0};
    const int wait_ms = static_cast<int>(std::max(duration_cast<milliseconds>(left).count(), 0L));
    if (poll(&readable, 1, wait_ms) <= 0) return {};
    std::array<char, 4096> block{};
    const ssize_t count = read(output_, block.data(), block.size());
    if (count < 0) return {};
    if (count == 0) break;
    output.append(block.data(), static_cast<size_t>(count));
  }
  return has_ended_well() ? parse(output) : GitState{};
}

}  // namespace fsdp
