#include <algorithm>
#include <array>
#include <iostream>
#include <memory>

#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/commands/differences.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/commands/two_runs.h"
#include "runner/host/provenance.h"
#include "runner/table/names.h"
#include "runner/table/table.h"

namespace fsdp {
namespace {

struct DiffArguments {
  std::array<std::string, 2> words;
  std::vector<std::string> results{"results"};
};

constexpr std::string_view kFactsOfRank[] = {"host",
                                             "device_name",
                                             "threads",
                                             "torch_version",
                                             "cuda_version",
                                             "nccl_version",
                                             "driver_version",
                                             "compute_capability",
                                             "allocator_settings",
                                             "bound_cpus",
                                             "device_memory_bytes",
                                             "power_limit_watts",
                                             "sm_clock_mhz_max"};

// Adds the fields of `facts` that are known and chosen.
template <Fields Facts, typename IsChosen>
void add_fields(KeysAndValues& keys, const Facts& facts, IsChosen is_chosen) {
  Facts::visit_fields(facts, [&]<typename T>(std::string_view name, const T& value, auto&&...) {
    if (!is_chosen(name)) return;
    if constexpr (is_optional<T>) {
      if (value) keys.emplace_back(name, yaml_text(*value));
    } else if constexpr (std::same_as<T, std::string>) {
      if (!value.empty()) keys.emplace_back(name, value);
    } else {
      keys.emplace_back(name, yaml_text(value));
    }
  });
}

// Returns the provenance of the newest attempt. Environment variables are keys of their own.
KeysAndValues provenance(const Store& store, const RunRecord& run) {
  KeysAndValues keys;
  if (!run.data_digest.empty()) keys.emplace_back("data_digest", run.data_digest);
  const Provenance found = store.provenance(run.id, run.attempt);
  add_fields(keys, found, [](std::string_view name) { return name != "environment"; });
  for (const auto& [variable, value] : recorded_variables(found)) {
    keys.emplace_back("environment." + variable, value);
  }
  const std::vector<RunStarted> ranks = store.rank_facts(run.id, run.attempt);
  if (ranks.empty()) return keys;
  add_fields(keys, ranks.front(), [](auto name) { return is_among(kFactsOfRank, name); });
  return keys;
}

// Adds a row for each key that differs: its name and both values.
void add_differences(Table& table, const KeysAndValues& left, const KeysAndValues& right) {
  for (const auto& [key, one, other] : differences(left, right)) {
    table.add({key, one.value_or("-"), other.value_or("-")});
  }
}

ExitCode diff(const DiffArguments& arguments) {
  const Store store = existing_results(arguments.results);
  const RunRecord one = find_run(store, arguments.words[0]);
  const RunRecord other = find_run(store, arguments.words[1]);
  Table table{.columns = {{.heading = "", .is_left = true},
                          {.heading = run_label(one), .is_left = true},
                          {.heading = run_label(other), .is_left = true}}};
  add_differences(table, keys_and_values(store.spec(one.id)),
                  keys_and_values(store.spec(other.id)));
  add_differences(table, provenance(store, one), provenance(store, other));
  if (table.blocks.empty()) {
    std::cout << run_label(one) << " and " << run_label(other)
              << " differ neither in their specification nor in where their results come from\n";
  } else {
    for (const std::string& line : lay_out(table, {}).all()) std::cout << line << '\n';
  }
  if (one.id == other.id) return ExitCode::kOk;
  const std::string losses = LossesOfTwo(store, one, other).answer();
  if (!losses.empty()) std::cout << "Loss: " << visible_line(losses) << '\n';
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_diff_command(CLI::App& command) {
  const auto arguments = std::make_shared<DiffArguments>();
  command.footer(R"(Examples:
  fsdp-run diff 4xDDP 4xFSDP
  fsdp-run diff 12 lab/4xFSDP
  fsdp-run diff alice/lab/4xFSDP bob/lab/4xFSDP --results alice --results bob)");
  command.add_option("RUN", arguments->words[0], kRunWordHelp)->required();
  command.add_option("OTHER", arguments->words[1], "Another run")->required();
  add_results_option(command, arguments->results);
  return [arguments] { return diff(*arguments); };
}

}  // namespace fsdp
