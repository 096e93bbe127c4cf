#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "contract/spec/run_spec_yaml.h"
#include "contract/text/foreign_json.h"
#include "contract/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

struct DiffArguments {
  std::array<std::string, 2> words;
  std::filesystem::path results = "results";
};

// Of one run, in the order shown.
using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

struct Difference {
  std::string key;
  std::array<std::string, 2> values;
};

template <typename Value>
void add_if_known(KeysAndValues& facts, const char* name, const Value& value) {
  if constexpr (is_optional<Value>) {
    if (value) facts.emplace_back(name, yaml_text(*value));
  } else if constexpr (std::same_as<Value, std::string>) {
    if (!value.empty()) facts.emplace_back(name, value);
  } else {
    facts.emplace_back(name, yaml_text(value));
  }
}

// Of the newest attempt. Variables of the environment are keys of their own.
KeysAndValues provenance(const Store& store, const RunRecord& run) {
  KeysAndValues facts;
  add_if_known(facts, "data_digest", run.data_digest);
  const Provenance found = store.provenance(run.id, run.attempt);
  Provenance::visit_fields(found, [&](const std::string_view name, const auto& value) {
    if (name != "environment") add_if_known(facts, name.data(), value);
  });
  const auto environment = parse_foreign_json(found.environment);
  for (const auto& [variable, value] : environment.items()) {
    facts.emplace_back("environment." + variable, value.get<std::string>());
  }
  const std::vector<RunStarted> ranks = store.rank_facts(run.id, run.attempt);
  if (ranks.empty()) return facts;
  const RunStarted& rank = ranks.front();
  add_if_known(facts, "host", rank.host);
  add_if_known(facts, "device_name", rank.device_name);
  add_if_known(facts, "device_memory_bytes", rank.device_memory_bytes);
  add_if_known(facts, "power_limit_watts", rank.power_limit_watts);
  add_if_known(facts, "sm_clock_mhz_max", rank.sm_clock_mhz_max);
  add_if_known(facts, "threads", rank.threads);
  add_if_known(facts, "torch_version", rank.torch_version);
  add_if_known(facts, "cuda_version", rank.cuda_version);
  add_if_known(facts, "nccl_version", rank.nccl_version);
  add_if_known(facts, "driver_version", rank.driver_version);
  return facts;
}

std::string value_of(const KeysAndValues& facts, const std::string& key) {
  const auto found = std::ranges::find(facts, key, &KeysAndValues::value_type::first);
  return found == facts.end() ? "-" : found->second;
}

void add_differences(std::vector<Difference>& different, const KeysAndValues& left,
                     const KeysAndValues& right) {
  const auto add = [&](const std::string& key) {
    Difference difference{key, {value_of(left, key), value_of(right, key)}};
    if (difference.values[0] != difference.values[1]) different.push_back(std::move(difference));
  };
  for (const auto& [key, value] : left) add(key);
  for (const auto& [key, value] : right) {
    if (std::ranges::find(left, key, &KeysAndValues::value_type::first) == left.end()) add(key);
  }
}

std::string table_of(const std::array<RunRecord, 2>& runs, std::vector<Difference> rows) {
  rows.insert(rows.begin(), {"", {run_label(runs[0]), run_label(runs[1])}});
  for (Difference& row : rows) {
    row.key = visible_line(row.key);
    std::ranges::transform(row.values, row.values.begin(), visible_line);
  }
  size_t key_columns = 0;
  size_t value_columns = 0;
  for (const Difference& row : rows) {
    key_columns = std::max(key_columns, display_width(row.key));
    value_columns = std::max(value_columns, display_width(row.values[0]));
  }
  std::string text;
  for (const Difference& row : rows) {
    text += display_left(row.key, key_columns) + "  " + display_left(row.values[0], value_columns) +
            "  " + row.values[1] + '\n';
  }
  return text;
}

ExitCode diff(const DiffArguments& arguments) {
  require_results(arguments.results);
  const Store store(arguments.results, StoreUse::kExisting);
  const std::array runs{find_run(store, arguments.words[0]), find_run(store, arguments.words[1])};
  std::vector<Difference> different;
  add_differences(different, keys_and_values(store.spec(runs[0].id)),
                  keys_and_values(store.spec(runs[1].id)));
  add_differences(different, provenance(store, runs[0]), provenance(store, runs[1]));
  if (different.empty()) {
    std::cout << run_label(runs[0]) << " and " << run_label(runs[1])
              << " differ neither in their specification nor in where their results come from\n";
  } else {
    std::cout << table_of(runs, different);
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_diff_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "diff", "Print which keys of two runs differ, and where their results come from");
  const auto arguments = std::make_shared<DiffArguments>();
  command.footer(R"(Examples:
  fsdp-run diff 4xDDP 4xFSDP
  fsdp-run diff 12 lab/4xFSDP)");
  command.add_option("RUN", arguments->words[0], kRunWordHelp)->required()->option_text(" ");
  command.add_option("OTHER", arguments->words[1], "Another run")->required()->option_text(" ");
  add_results_option(command, arguments->results);
  return [arguments] { return diff(*arguments); };
}

}  // namespace fsdp
