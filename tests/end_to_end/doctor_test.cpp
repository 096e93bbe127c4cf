#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "runner/report/terminal_text.h"
#include "tests/end_to_end/stub_runs.h"

// fsdp-run doctor, on hosts that are made for it.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// A folder that is the whole PATH.
class Programs {
 public:
  explicit Programs(const Workplace& workplace) : folder_(workplace / "programs") {
    std::filesystem::create_directory(folder_);
  }
  void add(const std::string& name, const std::string& version) const {
    std::ofstream(folder_ / name) << "#!/bin/sh\necho '" << version << "'\n";
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }
  Variables environment() const { return {{"PATH", folder_}, {"HOME", folder_}}; }

 private:
  std::filesystem::path folder_;
};

// The finding in one line: how it is wrapped depends on the length of the paths in it.
std::string finding(const std::string& text, const std::string& subject) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    const size_t indented = std::min(line.find_first_not_of(' '), line.size());
    if (!found.empty() && indented < 9) break;
    if (!found.empty()) {
      found += ' ' + line.substr(indented);
    } else if (line.size() > 9 && line.substr(9).starts_with(subject + ' ')) {
      found = line;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a doctor on a host without anything names what is missing and does not fail itself") {
  const Workplace workplace("  - {name: one}\n");
  const Programs programs(workplace);
  const Ended ended =
      workplace.call({"doctor", "--trainer", workplace / "no-trainer"}, programs.environment());
  CHECK(ended.status == 1);
  CHECK(ended.errors.empty());
  CHECK_THAT(finding(ended.output, "fsdp-train"), Contains("missing") && Contains("no-trainer"));
  CHECK_THAT(finding(ended.output, "g++"), Contains("warning") && Contains("not in PATH"));
  CHECK_THAT(finding(ended.output, "cmake"), Contains("warning"));
  CHECK_THAT(finding(ended.output, "Slurm"), Contains("ok") && Contains("not here"));
  CHECK_THAT(ended.output, Contains("cannot run here yet"));
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find('/') == std::string::npos) CHECK(display_width(line) <= 80);  // paths are whole
  }
}

TEST_CASE("a doctor on a host that has all says so") {
  const Workplace workplace("  - {name: one}\n");
  const Programs programs(workplace);
  programs.add("g++", "g++ (GCC) 14.1.0");
  programs.add("sinfo", "slurm 22.05.8");
  programs.add("sbatch", "slurm 22.05.8");
  const Ended ended =
      workplace.call({"doctor", "--trainer", STUB_TRAINER_PROGRAM}, programs.environment());
  CHECK(ended.status == 0);
  CHECK_THAT(finding(ended.output, "fsdp-train"), Contains("ok") && Contains("for the CPU"));
  CHECK_THAT(finding(ended.output, "g++"), Contains("ok") && Contains("14.1.0"));
  CHECK_THAT(finding(ended.output, "Slurm"), Contains("ok") && Contains("slurm 22.05.8"));
  CHECK_THAT(finding(ended.output, "results"), Contains("GiB free"));
  CHECK_THAT(ended.output, Contains("The lab can run here"));
}

TEST_CASE("GPUs without a trainer for them, and half of Slurm, are warned of") {
  const Workplace workplace("  - {name: one}\n");
  const Programs programs(workplace);
  programs.add("sbatch", "slurm 22.05.8");
  Variables environment = programs.environment();
  environment["LD_LIBRARY_PATH"] = FAKE_NVML_FOLDER;
  environment["FAKE_NVML_GPUS"] = "80 40";
  const std::string text =
      workplace.call({"doctor", "--trainer", STUB_TRAINER_PROGRAM}, environment).output;
  CHECK_THAT(finding(text, "GPU 1"), Contains("Fake GPU, 40.0 GiB"));
  CHECK_THAT(finding(text, "CUDA variant"), Contains("warning"));
  CHECK_THAT(finding(text, "Slurm"), Contains("warning") && Contains("without sinfo"));
}

TEST_CASE("results that cannot be written to are missing") {
  const Workplace workplace("  - {name: one}\n");
  const Ended ended =
      workplace.call({"doctor", "--trainer", STUB_TRAINER_PROGRAM, "--results", "/proc/results"});
  CHECK(ended.status == 1);
  CHECK_THAT(finding(ended.output, "results"), Contains("missing"));
}
