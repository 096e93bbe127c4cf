#include "runner/host/doctor.h"

#include <iostream>
#include <memory>

#include "runner/commands/commands.h"
#include "runner/commands/options.h"

namespace fsdp {
namespace {

constexpr size_t kWidth = 80;

struct DoctorArguments {
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

ExitCode doctor(const DoctorArguments& arguments) {
  const std::vector<Finding> findings =
      examine({.trainer = trainer_path(arguments.trainer), .results = arguments.results});
  std::cout << findings_text(findings, kWidth);
  return lab_can_run(findings) ? ExitCode::kOk : ExitCode::kRunFailed;
}

}  // namespace

CommandFunction add_doctor_command(CLI::App& command) {
  const auto arguments = std::make_shared<DoctorArguments>();
  command.footer(R"(Examples:
  fsdp-run doctor
  fsdp-run doctor --results /scratch/$USER/results)");
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return doctor(*arguments); };
}

}  // namespace fsdp
