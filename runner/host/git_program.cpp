#include "runner/host/git_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace fsdp {
namespace {

// They say of which repository git tells, whatever folder it is asked in.
constexpr std::array<std::string_view, 11> kOfAnotherRepository = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE"};

std::vector<std::string> environment_of_git() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto name = text.substr(0, text.find('='));
    if (std::ranges::find(kOfAnotherRepository, name) == kOfAnotherRepository.end()) {
      variables.emplace_back(text);
    }
  }
  // What is missing in a partial clone is not fetched: that would start programs of its
  // configuration. The second is for versions that do not know the first.
  variables.emplace_back("GIT_NO_LAZY_FETCH=1");
  variables.emplace_back("GIT_ALLOW_PROTOCOL=none");
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

GitProgram::GitProgram(const std::filesystem::path& folder, const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // An empty monitor is none for every version; "false" is the name of a program for some.
  std::vector<std::string> all{"git",
                               "--no-pager",
                               "--no-optional-locks",
                               "-c",
                               "core.fsmonitor=",
                               "-c",
                               "core.hooksPath=/dev/null",
                               "-C",
                               folder.string()};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<std::string> environment = environment_of_git();
  if (posix_spawnp(&process_, "git", &actions, nullptr, pointers_to(all).data(),
                   pointers_to(environment).data()) != 0) {
    process_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
}

GitProgram::~GitProgram() {
  if (output_ >= 0) close(output_);
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

std::optional<GitProgram::Answer> GitProgram::answer(Time deadline) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  Answer answer;
  while (process_ >= 0) {
    const auto left = deadline - std::chrono::steady_clock::now();
    pollfd readable{.fd = output_, .events = POLLIN, .revents = 0};
    const int wait_ms = static_cast<int>(std::max(duration_cast<milliseconds>(left).count(), 0L));
    if (poll(&readable, 1, wait_ms) <= 0) return std::nullopt;
    std::array<char, 4096> block{};
    const ssize_t count = read(output_, block.data(), block.size());
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    answer.text.append(block.data(), static_cast<size_t>(count));
  }
  int status = 0;
  if (process_ < 0 || waitpid(process_, &status, 0) != process_) return std::nullopt;
  process_ = -1;
  if (!WIFEXITED(status)) return std::nullopt;
  answer.exit_status = WEXITSTATUS(status);
  return answer;
}

}  // namespace fsdp
