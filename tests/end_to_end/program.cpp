#include "tests/end_to_end/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "contract/record/event.h"

namespace fsdp {
using std::chrono::steady_clock;

bool soon(const std::function<bool()>& condition, std::chrono::seconds limit) {
  for (const auto deadline = steady_clock::now() + limit; steady_clock::now() < deadline;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

Program::Program(const std::filesystem::path& folder, const std::vector<std::string>& command,
                 const Variables& environment) {
  static int count = 0;
  const std::string name = "program" + std::to_string(count++);
  output_ = folder / (name + ".out");
  errors_ = folder / (name + ".err");
  process_ = fork();
  if (process_ != 0) return;
  setenv("TMPDIR", folder.c_str(), 1);  // claims of devices are there, apart from other tests'
  unsetenv("COLUMNS");                  // lines have the default width
  for (const auto& [variable, value] : environment) setenv(variable.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  dup2(open(output_.c_str(), O_WRONLY | O_CREAT, 0644), STDOUT_FILENO);
  dup2(open(errors_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644), STDERR_FILENO);
  if (chdir(folder.c_str()) == 0) execv(arguments[0], arguments.data());
  _exit(127);
}

Program::~Program() {
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Program::send(int signal_number) const { kill(process_, signal_number); }

void Program::wait_for_error_text(const std::string& text) const {
  if (!soon([&] { return text_of(errors_).find(text) != std::string::npos; })) {
    throw std::runtime_error("not said: " + text + "\nbut: " + text_of(errors_));
  }
}

Ended Program::wait(std::chrono::seconds limit) {
  int status = 0;
  if (!soon([&] { return waitpid(process_, &status, WNOHANG) != 0; }, limit)) {
    throw std::runtime_error("does not end; it has said: " + text_of(errors_));
  }
  process_ = -1;
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .output = text_of(output_),
          .errors = text_of(errors_)};
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::string first_line_of(const std::filesystem::path& file) {
  if (!soon([&] { return text_of(file).find('\n') != std::string::npos; })) {
    throw std::runtime_error("nothing was written to " + file.string());
  }
  const std::string text = text_of(file);
  return text.substr(0, text.find('\n'));
}

bool gone_soon(pid_t process) {
  return soon([&] {
    const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  });
}

std::string few_games() {
  static const TemporaryFolder folder;
  static const std::string file = [] {
    std::ifstream shipped(FSDP_EXPERIMENTS_FOLDER "/data/chess/games.csv");
    std::string games;
    std::string line;
    for (int i = 0; i <= 600 && std::getline(shipped, line); ++i) games += line + '\n';
    return folder.write("games.csv", games).string();
  }();
  return file;
}

Workplace::Workplace(const std::string& points, std::string base, std::filesystem::path trainer)
    : trainer_(std::move(trainer)) {
  if (base.find("data") == std::string::npos) {
    base.insert(base.rfind('}', base.find('\n')), ", data.train: " + few_games());
  }
  folder_.write("experiment.yaml", "experiment: trial\nbase: " + base + "\npoints:\n" + points);
}

std::vector<std::string> Workplace::command(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command{FSDP_RUN_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--trainer", trainer_});
  return command;
}

Ended Workplace::run(const std::vector<std::string>& arguments,
                     const Variables& environment) const {
  return Program(folder_.path(), command(arguments), environment).wait();
}

Ended Workplace::call(std::vector<std::string> arguments, const Variables& environment) const {
  arguments.insert(arguments.begin(), FSDP_RUN_PROGRAM);
  return Program(folder_.path(), arguments, environment).wait();
}

std::vector<pid_t> Workplace::reported_processes() const {
  std::vector<pid_t> processes;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(results())) {
    const std::string text = text_of(entry.path());
    const size_t line_end = text.find('\n');
    // A rank may have been killed before it wrote anything.
    if (entry.path().extension() != ".jsonl" || line_end == std::string::npos) continue;
    const std::optional<Event> first = event_from_json_line(text.substr(0, line_end));
    processes.push_back(static_cast<pid_t>(std::get<RunStarted>(first.value().body).process_id));
  }
  return processes;
}

}  // namespace fsdp
