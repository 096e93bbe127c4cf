#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "runner/table/terminal_text.h"
#include "tests/end_to_end/stub_runs.h"

// fsdp-run doctor on made-up hosts.
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

// Returns the finding about `subject` in one line. Its line breaks depend on the length of paths.
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

std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += word + ' ';
  return line;
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
    if (line.find('/') == std::string::npos) CHECK(display_width(line) <= 80);  // paths stay whole
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
  CHECK_THAT(finding(text, "driver"), Contains("NVIDIA 580.65.06, for CUDA up to 13.0"));
  CHECK_THAT(finding(text, "GPU 1"), Contains("Fake GPU, 40.0 GiB, compute capability 8.0"));
  CHECK_THAT(finding(text, "CUDA variant"), Contains("warning"));
  CHECK_THAT(finding(text, "Slurm"), Contains("warning") && Contains("without sinfo"));
}

TEST_CASE("a driver and GPUs that the trainer's libraries do not fit are known before a run") {
  const Workplace workplace("  - {name: one}\n", "{train.steps: 20}");
  Variables environment{
      {"LD_LIBRARY_PATH", FAKE_NVML_FOLDER}, {"FAKE_NVML_GPUS", "80 40"}, {"STUB_CUDA", "13.0"}};
  const auto call = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--trainer", STUB_TRAINER_PROGRAM});
    const Ended ended = workplace.call(all, environment);
    CHECK(ended.errors.empty());
    return ended.output;
  };
  std::string text = call({"doctor"});
  CHECK_THAT(finding(text, "CUDA"), Contains("ok") && Contains("13.0") && Contains("sm_80"));
  CHECK_THAT(text, !Contains("FSDP_CUDA"));
  CHECK_THAT(call({"check", "experiment.yaml"}), !Contains("warning"));

  environment["FAKE_NVML_CUDA"] = "12040";
  environment["FAKE_NVML_CAPABILITY"] = "70";
  text = call({"doctor"});
  CHECK_THAT(finding(text, "driver"), Contains("for CUDA up to 12.4"));
  CHECK_THAT(finding(text, "GPUs"), Contains("missing") && Contains("FSDP_CUDA=12"));
  CHECK_THAT(text, Contains("cannot run here yet"));
  const auto says_both = [](const std::string& said) {
    CHECK_THAT(said, Contains("serves CUDA up to 12.4, and fsdp-train is built for CUDA 13.0") &&
                         Contains("Fake GPU has compute capability 7.0"));
  };
  says_both(in_one_line(text));
  text = call({"check", "experiment.yaml"});
  CHECK_THAT(text, Contains("no mistake found"));
  says_both(in_one_line(text));
  CHECK_THAT(call({"check", "experiment.yaml", "--set", "device=cpu"}), !Contains("warning"));
  const std::vector<std::string> for_slurm{"check", "experiment.yaml", "--launcher",
                                           "slurm", "--set",           "slurm.gpus_per_node=1"};
  CHECK_THAT(call(for_slurm), !Contains("warning"));
  environment["CUDA_VISIBLE_DEVICES"] = "-1";
  CHECK_THAT(call({"check", "experiment.yaml"}), !Contains("warning"));
}

TEST_CASE("a doctor lets the trainer test itself last, and ends as it does") {
  const Workplace workplace("  - {name: one}\n");
  const auto call = [&](const std::string& trainer, const std::string& status) {
    return workplace.call({"doctor", "--self-test", "--trainer", trainer},
                          {{"STUB_SELF_TEST_STATUS", status}});
  };
  const Ended passed = call(STUB_TRAINER_PROGRAM, "0");
  CHECK(passed.status == 0);
  CHECK_THAT(passed.output, Contains("The lab can run here") && Catch::EndsWith("self-test\n"));
  CHECK(call(STUB_TRAINER_PROGRAM, "1").status == 1);
  const Ended without = call(workplace / "no-trainer", "0");
  CHECK(without.status == 1);
  CHECK_THAT(without.output, Contains("cannot run here yet"));
}

TEST_CASE("a trainer that does not start is missing") {
  const Workplace workplace("  - {name: one}\n");
  const Ended ended = workplace.call({"doctor", "--trainer", "/bin/false"});
  CHECK(ended.status == 1);
  CHECK_THAT(finding(ended.output, "fsdp-train"),
             Contains("missing") && Contains("does not start here"));
}

TEST_CASE("results that cannot be written to are missing") {
  const Workplace workplace("  - {name: one}\n");
  const Ended ended =
      workplace.call({"doctor", "--trainer", STUB_TRAINER_PROGRAM, "--results", "/proc/results"});
  CHECK(ended.status == 1);
  CHECK_THAT(finding(ended.output, "results"), Contains("missing"));
}
