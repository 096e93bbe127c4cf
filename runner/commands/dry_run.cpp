#include "runner/commands/dry_run.h"

#include <iostream>
#include <iterator>

#include "contract/inputs/file_digest.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/json.h"
#include "contract/text/utf8.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/host.h"
#include "runner/sweep/planned_runs.h"

namespace fsdp {

ExitCode dry_run(const RunArguments& options) {
  const Experiment experiment = Experiment::load(options.choice.file);
  ExpandOptions choice = options.choice.expand;
  choice.check_gpus = false;
  Expansion expansion = experiment.expand(choice, find_host(options.choice.gpus).resources);
  check_inputs_of(expansion);
  if (options.choice.expand.on_cluster) check_jobs_of(expansion);
  const std::vector<Store::PlannedRun> planned =
      planned_runs(experiment, expansion.runs, remembered(file_digest));
  std::string text = "# " + counted(std::ssize(planned), "run") + '\n';
  if (!expansion.profile_reason.empty()) text += "# profile " + expansion.profile_reason + '\n';
  for (size_t i = 0; i < planned.size(); ++i) {
    const Store::PlannedRun& run = planned[i];
    text += "---\n# point: ";
    append_json_string(text, run.point);  // a name may hold line feeds
    text += "\n# hash: " + run.hash +
            "\n# folder: " + visible_line((options.results / run.folder).string()) + '\n';
    if (const auto& doubling = expansion.runs[i].doubling) {
      text += "# " + visible_line(doubling->outlook()) + '\n';
    }
    text += to_yaml(run.spec);
  }
  std::cout << text;
  return ExitCode::kOk;
}

}  // namespace fsdp
