#include <algorithm>
#include <nlohmann/json.hpp>

#include "contract/record/run_paths.h"
#include "contract/text/foreign_json.h"
#include "contract/text/json.h"
#include "runner/export/exported_run.h"
#include "runner/export/moments.h"
#include "runner/export/output_file.h"

namespace fsdp {
namespace {

// Sends nothing by itself: who exports may have no network, and no account.
constexpr const char* kUpload = R"python(import json, pathlib, wandb

for about in sorted(pathlib.Path(__file__).resolve().parent.glob("*/*/wandb.json")):
    run_facts = json.loads(about.read_text())
    with wandb.init(**run_facts["init"]) as run:
        run.define_metric("*", step_metric="step")
        for line in (about.parent / "history.jsonl").open():
            run.log(json.loads(line))
        if run_facts["checkpoint"]:
            run.log_model(run_facts["checkpoint"], name=run_facts["init"]["id"])
)python";

// A variable of the environment that the attempt ran in.
std::optional<std::string> variable_of(const Origin& origin, const std::string& name) {
  const auto variables = parse_foreign_json(origin.environment);
  const auto found = variables.find(name);
  if (found == variables.end()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::string> first_given(std::initializer_list<std::optional<std::string>> values) {
  const auto given =
      std::ranges::find_if(values, [](const auto& value) { return value.has_value(); });
  return given == values.end() ? std::nullopt : *given;
}

// The newest complete checkpoint of the run; empty: none.
std::filesystem::path newest_checkpoint(const Store& store, const ExportedRun& run,
                                        const std::filesystem::path& results) {
  std::filesystem::path newest;
  for (const AttemptRecord& attempt : store.attempts(run.row.run)) {
    for (const auto& checkpoint : store.checkpoints(run.row.run, attempt.attempt)) {
      const auto folder =
          std::filesystem::absolute(results / run.row.folder / checkpoint.body.path);
      if (std::filesystem::exists(folder / kTrainerStateName)) newest = folder;
    }
  }
  return newest;
}

template <typename Value>
nlohmann::ordered_json json_of(const Value& value) {
  std::string text;
  append_json(text, value);
  return nlohmann::ordered_json::parse(text);
}

}  // namespace

void write_wandb(const Store& store, const ExportedRun& run, const std::filesystem::path& folder,
                 const ExportOptions& options) {
  const ComparisonRow& row = run.row;
  const RunSpec spec = store.spec(row.run);
  const WandbSpec& names = spec.wandb;
  const std::optional<std::string> entity =
      first_given({names.entity, options.wandb.entity, variable_of(run.origin, "WANDB_ENTITY")});
  const std::optional<std::string> project =
      first_given({names.project, options.wandb.project, variable_of(run.origin, "WANDB_PROJECT"),
                   safe_file_name(row.experiment)});

  nlohmann::ordered_json config = json_of(spec);
  config["comparison"] = json_of(row);
  config["origin"] = json_of(run.origin);
  nlohmann::ordered_json about;
  auto& init = about["init"];
  if (entity) init["entity"] = *entity;
  init["project"] = *project;
  init["name"] = names.name.value_or(row.point);
  init["group"] = row.experiment;
  // A second upload of the same attempt is refused instead of doubled.
  init["id"] = row.hash8 + '-' + std::to_string(row.started_unix_ms.value_or(0));
  init["resume"] = "never";
  init["config"] = std::move(config);
  about["checkpoint"] = nullptr;
  if (names.log_model) {
    const auto checkpoint = newest_checkpoint(store, run, options.results);
    if (!checkpoint.empty()) about["checkpoint"] = checkpoint.string();
  }
  OutputFile about_file(folder / "wandb.json");
  about_file.write(about.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  about_file.close();

  OutputFile history(folder / "history.jsonl");
  for (const Moment& moment : moments_of(store, row.run, static_cast<int>(row.attempt.value()))) {
    std::string line = "{\"step\":" + std::to_string(moment.step) +
                       ",\"time_unix_ms\":" + std::to_string(moment.time_unix_ms);
    for (const auto& [name, value] : moment.figures) {
      line += ',';
      append_json_string(line, name);
      line += ':';
      append_json(line, value);
    }
    history.write(line + "}\n");
  }
  history.close();
}

void write_wandb_upload(const std::filesystem::path& folder) {
  OutputFile file(folder / "upload.py");
  file.write(kUpload);
  file.close();
}

}  // namespace fsdp
