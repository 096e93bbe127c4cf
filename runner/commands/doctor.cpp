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
  const std::filesystem::path programs =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::vector<Finding> findings =
      examine({.trainer = arguments.trainer.empty() ? programs / "fsdp-train" : arguments.trainer,
               .repository = programs.parent_path().parent_path(),  // above build/<preset>
               .results = arguments.results});
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
