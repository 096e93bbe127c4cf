#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "contract/spec/run_spec_yaml.h"
#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/host/provenance.h"
#include "runner/table/table.h"

namespace fsdp {
namespace {

struct DiffArguments {
  std::array<std::string, 2> words;
  std::filesystem::path results = "results";
};

// Keys and values of one run, in the order shown.
using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

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

// Returns the provenance of the newest attempt. Environment variables are keys of their own.
KeysAndValues provenance(const Store& store, const RunRecord& run) {
  KeysAndValues facts;
  add_if_known(facts, "data_digest", run.data_digest);
  const Provenance found = store.provenance(run.id, run.attempt);
  Provenance::visit_fields(found, [&](const std::string_view name, const auto& value) {
    if (name != "environment") add_if_known(facts, name.data(), value);
  });
  for (const auto& [variable, value] : recorded_variables(found)) {
    facts.emplace_back("environment." + variable, value);
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
  add_if_known(facts, "bound_cpus", rank.bound_cpus);
  add_if_known(facts, "torch_version", rank.torch_version);
  add_if_known(facts, "cuda_version", rank.cuda_version);
  add_if_known(facts, "nccl_version", rank.nccl_version);
  add_if_known(facts, "driver_version", rank.driver_version);
  add_if_known(facts, "compute_capability", rank.compute_capability);
  add_if_known(facts, "allocator_settings", rank.allocator_settings);
  return facts;
}

std::string value_of(const KeysAndValues& facts, const std::string& key) {
  const auto found = std::ranges::find(facts, key, &KeysAndValues::value_type::first);
  return found == facts.end() ? "-" : found->second;
}

// Adds a row for each key that differs: its name and both values.
void add_differences(Table& table, const KeysAndValues& left, const KeysAndValues& right) {
  const auto add = [&](const std::string& key) {
    const std::string one = value_of(left, key), other = value_of(right, key);
    if (one != other) table.add({key, one, other});
  };
  for (const auto& [key, value] : left) add(key);
  for (const auto& [key, value] : right) {
    if (std::ranges::find(left, key, &KeysAndValues::value_type::first) == left.end()) add(key);
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
    return ExitCode::kOk;
  }
  for (const std::string& line : lay_out(table, {}).all()) std::cout << line << '\n';
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_diff_command(CLI::App& command) {
  const auto arguments = std::make_shared<DiffArguments>();
  command.footer(R"(Examples:
  fsdp-run diff 4xDDP 4xFSDP
  fsdp-run diff 12 lab/4xFSDP)");
  command.add_option("RUN", arguments->words[0], kRunWordHelp)->required();
  command.add_option("OTHER", arguments->words[1], "Another run")->required();
  add_results_option(command, arguments->results);
  return [arguments] { return diff(*arguments); };
}

}  // namespace fsdp
