// Writes files that upload.py sends to an experiment tracker. Nothing is sent here.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "contract/record/run_paths.h"
#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

// Returns the first value that is given: by the run's specification, by the caller, or by the
// variable in the attempt's environment.
std::optional<std::string> first_given(const std::optional<std::string>& of_run,
                                       const std::optional<std::string>& of_caller,
                                       const Origin& origin, const char* variable) {
  if (of_run || of_caller) return of_run ? of_run : of_caller;
  const auto variables = parse_foreign_json(origin.provenance.environment);
  const auto found = variables.find(variable);
  if (found == variables.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// Returns the folder of the run's newest complete checkpoint. Empty: none.
std::filesystem::path newest_checkpoint(const Store& store, const ComparisonRow& run,
                                        const std::filesystem::path& results) {
  std::filesystem::path newest;
  for (const AttemptRecord& attempt : store.attempts(run.run)) {
    for (const auto& checkpoint : store.events<CheckpointDone>(run.run, attempt.attempt)) {
      const auto folder = std::filesystem::absolute(results / run.folder / checkpoint.body.path);
      if (std::filesystem::exists(folder / kTrainerStateName)) newest = folder;
    }
  }
  return newest;
}

template <typename Value>
nlohmann::ordered_json json_of(const Value& value) {
  return nlohmann::ordered_json::parse(json_text(value));
}

}  // namespace

void write_tracked(const Store& store, const ComparisonRow& run, const Origin& origin,
                   const std::filesystem::path& folder, const ExportOptions& options) {
  const WandbSpec& names = run.spec.wandb;
  const auto entity = first_given(names.entity, options.wandb.entity, origin, "WANDB_ENTITY");
  const auto project = first_given(names.project, options.wandb.project, origin, "WANDB_PROJECT");

  nlohmann::ordered_json config = json_of(run.spec);
  config["comparison"] = json_of(run);
  config["origin"] = json_of(origin);
  nlohmann::ordered_json about;
  auto& facts = about["run"];
  if (entity) facts["entity"] = *entity;
  facts["project"] = project.value_or(safe_file_name(run.experiment));
  facts["name"] = names.name.value_or(run.point);
  facts["group"] = run.experiment;
  facts["id"] = fmt::format("{}-{}", run.hash8, run.started_unix_ms.value_or(0));
  facts["config"] = std::move(config);
  about["checkpoint"] = nullptr;
  if (names.log_model) {
    const auto checkpoint = newest_checkpoint(store, run, options.results);
    if (!checkpoint.empty()) about["checkpoint"] = checkpoint.string();
  }
  OutputFile file(folder / "facts.json");
  file.write(about.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  file.close();

  OutputFile history(folder / "history.jsonl");
  for (const Moment& moment : moments_of(store, run.run, static_cast<int>(*run.attempt))) {
    JsonObject line;
    line.add("step", moment.step).add("time_unix_ms", moment.time_unix_ms);
    for (const auto& [name, value] : moment.figures) line.add(name, value);
    history.write(line.text() + '\n');
  }
  history.close();
}

}  // namespace fsdp
