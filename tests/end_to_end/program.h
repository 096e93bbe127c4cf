#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

// Drives the built programs as a user would.
namespace fsdp {

using Variables = std::map<std::string, std::string>;

// A program's exit status and output.
struct Ended {
  int status = -1;  // exit status, or 128 + signal if a signal ended the program
  std::string output;
  std::string errors;
};

// A program that runs in `folder`, with its output in files there. The destructor kills it.
class Program {
 public:
  Program(const std::filesystem::path& folder, const std::vector<std::string>& command,
          const Variables& environment = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::filesystem::path& output() const { return output_; }
  pid_t process_id() const { return process_; }
  void send(int signal_number) const;
  // Waits until the program has written `text` to stderr.
  void wait_for_error_text(const std::string& text) const;
  // Waits for the program's end. Throws if it does not end within `limit`.
  Ended wait(std::chrono::seconds limit = std::chrono::minutes(2));

 private:
  std::filesystem::path output_, errors_;
  pid_t process_ = -1;
};

// Waits for something that happens soon unless the program under test is wrong. Only a fault
// reaches the limit, also on a busy host.
bool soon(const std::function<bool()>& condition,
          std::chrono::seconds limit = std::chrono::minutes(2));
std::string text_of(const std::filesystem::path& file);
// Waits until `file` holds a whole line.
std::string first_line_of(const std::filesystem::path& file);
// True if the process ends soon. A process that only waits to be reaped has ended.
bool gone_soon(pid_t process);

// Returns a file with the first 600 of the shipped games, for data.train. Every new folder of
// results begins by tokenizing its data. All 2,701 games take 0.5 s of a core.
std::string few_games();

// A temporary folder with an experiment of `points` (YAML list items). It trains on few_games(),
// unless `base` names data.
class Workplace {
 public:
  explicit Workplace(const std::string& points, std::string base = "{train.steps: 5, device: cpu}",
                     std::filesystem::path trainer = STUB_TRAINER_PROGRAM);

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  std::filesystem::path results() const { return folder_ / "results"; }
  // The command line of fsdp-run with these arguments and the trainer.
  std::vector<std::string> command(const std::vector<std::string>& arguments) const;
  Ended run(const std::vector<std::string>& arguments = {"experiment.yaml"},
            const Variables& environment = {}) const;
  // Runs fsdp-run with another command, such as report.
  Ended call(std::vector<std::string> arguments, const Variables& environment = {}) const;
  // Returns the process ids that the ranks of all attempts have reported.
  std::vector<pid_t> reported_processes() const;

 private:
  TemporaryFolder folder_;
  std::filesystem::path trainer_;
};

}  // namespace fsdp
