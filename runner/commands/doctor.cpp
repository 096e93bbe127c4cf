#include "runner/host/doctor.h"

#include <iostream>
#include <memory>

#include "base/system/program.h"
#include "runner/commands/options.h"

namespace fsdp {
namespace {

constexpr size_t kWidth = 80;

struct DoctorArguments {
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
  bool is_self_test = false;
};

ExitCode doctor(const DoctorArguments& arguments) {
  const std::vector<Finding> findings = examine(trainer_path(arguments.trainer), arguments.results);
  std::cout << findings_text(findings, kWidth);
  if (arguments.is_self_test && lab_can_run(findings)) {
    std::cout.flush();
    become_program({trainer_path(arguments.trainer).string(), "--self-test"});
  }
  return lab_can_run(findings) ? ExitCode::kOk : ExitCode::kRunFailed;
}

}  // namespace

CommandFunction add_doctor_command(CLI::App& command) {
  const auto arguments = std::make_shared<DoctorArguments>();
  command.footer(R"(Examples:
  fsdp-run doctor
  fsdp-run doctor --self-test
  fsdp-run doctor --results /scratch/$USER/results)");
  add_results_option(command, arguments->results);
  command.add_flag(
      "--self-test", arguments->is_self_test,
      "Also let the trainer check its results on this host's device, and measure its speed");
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return doctor(*arguments); };
}

}  // namespace fsdp
