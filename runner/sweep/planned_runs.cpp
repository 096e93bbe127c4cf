#include "runner/sweep/planned_runs.h"

#include <algorithm>
#include <map>
#include <memory>

#include "contract/inputs/inputs.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/experiment/doubling_series.h"
#include "runner/slurm/request.h"
#include "runner/slurm/script.h"

namespace fsdp {
namespace {

// True if both runs read the same checked files. Ignores the total batch.
bool has_same_inputs(const RunSpec& one, const RunSpec& other) {
  return one.model == other.model && one.data == other.data && one.resume == other.resume &&
         one.evaluation.data == other.evaluation.data &&
         one.evaluation.fraction == other.evaluation.fraction &&
         one.slurm.template_file == other.slurm.template_file;
}

void check_template(const RunSpec& spec) {
  const std::filesystem::path& file = spec.slurm.template_file;
  if (file.empty()) return;
  try {
    read_text_file(file);
  } catch (const ConfigError& error) {
    throw ConfigError(error.place(), "slurm.template", error.problem());
  }
}

// Adds to a ConfigError of `check` the place that sets its key.
template <typename Check>
void placed(const Expansion& expansion, const Run& run, const Check& check) {
  try {
    check();
  } catch (const ConfigError& error) {
    const std::string file = error.place().empty() ? "" : error.place() + ": ";
    throw ConfigError(expansion.place(run, error.key()), error.key(), file + error.problem());
  }
}

bool is_of_one_job(const Run& run) { return run.spec.slurm.mode == SlurmMode::kAllocation; }

}  // namespace

RunRecord planned_run(const Experiment& experiment, Run run, const FileDigest& digest) {
  const std::string hash = run_hash(run.spec, digest);
  const std::string name = file_name_of(run.point) + '-' + hash.substr(0, 8);
  const std::string data = data_digest(run.spec, digest);
  const std::string losses = loss_digest(run.spec, digest);
  RunRecord planned{
      .point = std::move(run.point),
      .spec = std::move(run.spec),
      .hash = hash,
      .folder = std::filesystem::path("runs") / file_name_of(experiment.name()) / name,
      .position = run.position,
      .series = std::move(run.series),
      .repeat = run.repeat,
      .data_digest = data,
      .loss_digest = losses};
  if (run.doubling) {
    planned.family = run.doubling->family(digest);
    planned.family_key = run.doubling->key();
    planned.family_value = run.doubled_value;
  }
  return planned;
}

bool reads_the_same(const RunSpec& spec, const RunSpec& checked) {
  return has_same_inputs(spec, checked) && total_batch(spec) <= total_batch(checked);
}

void check_inputs_of(const Expansion& expansion) {
  // A training set that is large enough for the largest total batch is large enough for all.
  std::vector<const Run*> distinct;
  for (const Run& run : expansion.runs) {
    const auto same = std::find_if(distinct.rbegin(), distinct.rend(), [&](const Run* other) {
      return has_same_inputs(other->spec, run.spec);
    });
    if (same == distinct.rend()) {
      distinct.push_back(&run);
    } else if (total_batch(run.spec) > total_batch((*same)->spec)) {
      *same = &run;
    }
  }
  for (const Run* run : distinct) {
    placed(expansion, *run, [&] {
      check_template(run->spec);
      check_inputs(run->spec);
    });
  }
}

void check_jobs_of(const Expansion& expansion) {
  const Run* checked = nullptr;
  for (const Run& run : expansion.runs) {
    placed(expansion, run, [&] {
      if (checked == nullptr || !may_share_array(checked->spec, run.spec)) check_script(run.spec);
    });
    checked = &run;
  }
  if (std::ranges::none_of(expansion.runs, is_of_one_job)) return;
  const Run& first = expansion.runs.front();
  for (const Run& run : expansion.runs) {
    placed(expansion, run,
           [&] { check_one_job(first.point, first.spec.slurm, run.point, run.spec.slurm); });
  }
}

std::vector<RunRecord> planned_runs(const Experiment& experiment, std::vector<Run> runs,
                                            const FileDigest& digest) {
  std::vector<RunRecord> planned;
  planned.reserve(runs.size());
  for (Run& run : runs) planned.push_back(planned_run(experiment, std::move(run), digest));
  return planned;
}

std::vector<RunRecord> left_out_runs(const Experiment& experiment, std::vector<Run> runs,
                                             const FileDigest& digest) {
  std::vector<RunRecord> planned;
  planned.reserve(runs.size());
  for (Run& run : runs) {
    try {
      planned.push_back(planned_run(experiment, std::move(run), digest));
    } catch (const ConfigError&) {  // it could not run now
    }
  }
  return planned;
}

FileDigest remembered(FileDigest digest) {
  const auto digests = std::make_shared<std::map<std::filesystem::path, std::string>>();
  return [digest = std::move(digest), digests](const std::filesystem::path& file) {
    const auto found = digests->find(file);
    if (found != digests->end()) return found->second;
    return digests->emplace(file, digest(file)).first->second;
  };
}

}  // namespace fsdp
