#include "runner/cluster/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>

#include "runner/cluster/request.h"

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

[[noreturn]] void refuse(const std::string& program, std::string_view line) {
  throw QueueUnavailable(fmt::format("{} answers what is not its format: '{}'", program, line));
}

// Splits `text` at each `separator`. A separator at the end adds no part.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    parts.push_back(text.substr(0, text.find(separator)));
    text.remove_prefix(std::min(parts.back().size() + 1, text.size()));
  }
  return parts;
}

// The lines that are not empty.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  std::erase(lines, "");
  return lines;
}

// Returns the first `count` fields of a line. The last field takes the rest of the line.
std::vector<std::string_view> fields_of(const std::string& program, std::string_view line,
                                        size_t count) {
  std::vector<std::string_view> fields;
  std::string_view rest = line;
  while (fields.size() + 1 < count) {
    const size_t bar = rest.find('|');
    if (bar == std::string_view::npos) refuse(program, line);
    fields.push_back(rest.substr(0, bar));
    rest.remove_prefix(bar + 1);
  }
  fields.push_back(rest);
  return fields;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

int64_t to_number(std::string_view digits) {
  int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// Expands "0-2,7" to 0, 1, 2 and 7, and "0-98:2" to 0, 2, 4 and so on.
std::vector<int64_t> numbers_of(const std::string& program, std::string_view list) {
  constexpr int64_t kMostNumbers = 4'000'001;  // MaxArraySize's own maximum
  std::vector<int64_t> numbers;
  for (const std::string_view item : split(list, ',')) {
    const size_t colon = item.find(':');
    const std::string_view range = item.substr(0, colon);
    const std::string_view step = colon == item.npos ? "1" : item.substr(colon + 1);
    const size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == range.npos ? first : range.substr(dash + 1);
    if (!is_number(first) || !is_number(last) || !is_number(step) || to_number(step) == 0 ||
        to_number(step) >= kMostNumbers || to_number(last) >= kMostNumbers) {
      refuse(program, item);
    }
    for (int64_t n = to_number(first); n <= to_number(last); n += to_number(step)) {
      numbers.push_back(n);
    }
  }
  return numbers;
}

// Returns the tasks of "12", of "12_3", or of an array's waiting tasks in one line, "12_[0-2,7%4]".
std::vector<std::string> tasks_of(const std::string& program, std::string_view id) {
  const size_t underscore = id.find('_');
  const std::string_view job = id.substr(0, underscore);
  if (!is_number(job)) refuse(program, id);
  if (underscore == std::string_view::npos) return {std::string(id)};
  std::string_view rest = id.substr(underscore + 1);
  if (is_number(rest)) return {std::string(id)};
  if (!rest.starts_with('[') || !rest.ends_with(']')) refuse(program, id);
  rest = rest.substr(1, rest.size() - 2);
  std::vector<std::string> tasks;
  for (const int64_t number : numbers_of(program, rest.substr(0, rest.find('%')))) {
    tasks.push_back(fmt::format("{}_{}", job, number));
  }
  return tasks;
}

// The phase of a state. A task in an unknown state still exists, which is all that kEnding says.
TaskPhase phase_of(std::string_view state) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> states) {
    return std::ranges::find(states, state) != states.end();
  };
  if (is_one_of({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
                 "SPECIAL_EXIT", "RESV_DEL_HOLD"})) {
    return TaskPhase::kQueued;
  }
  if (is_one_of({"RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"})) {
    return TaskPhase::kRunning;
  }
  if (is_one_of({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL",
                 "BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED"})) {
    return TaskPhase::kEnded;
  }
  return TaskPhase::kEnding;  // COMPLETING, STAGE_OUT
}

// Turns the words that Slurm writes for "nothing" into empty text.
std::string_view without_placeholder(std::string_view text) {
  for (const std::string_view nothing : {"None"sv, "None assigned"sv, "(null)"sv, "n/a"sv}) {
    if (text == nothing) return "";
  }
  return text;
}

// `state` may continue after its first word: "CANCELLED by 1000".
void add_tasks(const std::string& program, std::string_view id, std::string_view state,
               std::string_view reason, std::string_view node_list, std::string_view time_left,
               std::string_view script, std::vector<TaskState>& tasks) {
  const std::string_view word = state.substr(0, state.find(' '));
  TaskState task{.job = {},
                 .phase = phase_of(word),
                 .state = std::string(word),
                 .reason = std::string(without_placeholder(reason)),
                 .node_list = std::string(without_placeholder(node_list)),
                 .script = std::string(script)};
  const bool has_time = time_left.find_first_not_of("0123456789-:") == std::string_view::npos;
  if (task.phase == TaskPhase::kRunning && has_time && !time_left.empty()) {
    task.seconds_left = seconds_of(time_left).value_or(0);
  }
  for (std::string& of_array : tasks_of(program, id)) {
    task.job = std::move(of_array);
    tasks.push_back(task);
  }
}

// The pairs NAME=value of a line. Words without '=' continue the value before them.
std::map<std::string, std::string> pairs_of(std::string_view line) {
  std::map<std::string, std::string> pairs;
  std::string* value = nullptr;
  for (const std::string_view word : split(line, ' ')) {
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      value = &pairs.try_emplace(std::string(word.substr(0, equals))).first->second;
      *value = word.substr(equals + 1);
    } else if (value != nullptr && !word.empty()) {
      value->append(" ").append(word);
    }
  }
  return pairs;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

void read_memory_limit(std::string_view name, std::string_view value, MemoryLimits& limits) {
  if (!is_number(value)) return;  // UNLIMITED
  if (name == "DefMemPerNode") limits.default_mib_per_node = to_number(value);
  if (name == "DefMemPerCPU") limits.default_mib_per_cpu = to_number(value);
  if (name == "MaxMemPerNode") limits.most_mib_per_node = to_number(value);
}

}  // namespace

std::vector<TaskState> read_squeue(std::string_view output) {
  std::vector<TaskState> tasks;
  for (const std::string_view line : lines_of(output)) {
    const auto fields = fields_of("squeue", line, 5);
    const size_t bar = std::min(fields[4].find('|'), fields[4].size());
    const std::string_view script = fields[4].substr(std::min(bar + 1, fields[4].size()));
    add_tasks("squeue", fields[0], fields[1], fields[4].substr(0, bar), fields[3], fields[2],
              script, tasks);
  }
  return tasks;
}

std::vector<TaskState> read_sacct(std::string_view output) {
  std::vector<TaskState> tasks;
  for (const std::string_view line : lines_of(output)) {
    const auto fields = fields_of("sacct", line, 3);
    add_tasks("sacct", fields[0], fields[1], "", fields[2], "", "", tasks);
  }
  return tasks;
}

std::optional<TaskAccounts> read_accounts(std::string_view output) {
  constexpr int64_t kUnmeasured = 4'000'000'000;  // without a sensor: 2^32 - 2, or more
  constexpr std::string_view kUnits = "KMGT";
  TaskAccounts accounts;
  for (const std::string_view line : lines_of(output)) {
    const auto fields = fields_of("sacct", line, 3);
    const bool is_step = fields[0].find('.') != std::string_view::npos;
    const int64_t joules = is_number(fields[1]) ? to_number(fields[1]) : 0;
    if (!is_step && joules > 0 && joules < kUnmeasured) {
      accounts.node_energy_joules = accounts.node_energy_joules.value_or(0) + joules;
    }
    std::string_view memory = fields[2];
    const size_t unit = memory.empty() ? kUnits.npos : kUnits.find(memory.back());
    if (unit != kUnits.npos) memory.remove_suffix(1);
    if (!is_number(memory) || to_number(memory) == 0) continue;
    const int64_t bytes = to_number(memory) << (unit == kUnits.npos ? 0 : 10 * (unit + 1));
    accounts.memory_bytes_max = std::max(accounts.memory_bytes_max.value_or(0), bytes);
  }
  return accounts == TaskAccounts() ? std::nullopt : std::optional(accounts);
}

std::vector<TaskState> read_scontrol_jobs(std::string_view output) {
  std::vector<TaskState> tasks;
  for (const std::string_view line : lines_of(output)) {
    auto pairs = pairs_of(line);
    if (!pairs.contains("JobId") || !pairs.contains("JobState")) refuse("scontrol", line);
    std::string id = pairs["JobId"];
    if (pairs.contains("ArrayTaskId")) {
      const std::string& numbers = pairs["ArrayTaskId"];
      id = pairs["ArrayJobId"] + '_' + (is_number(numbers) ? numbers : '[' + numbers + ']');
    }
    add_tasks("scontrol", id, pairs["JobState"], pairs["Reason"], pairs["NodeList"], "",
              pairs["Command"], tasks);
  }
  return tasks;
}

std::vector<Partition> read_partitions(std::string_view output) {
  std::vector<Partition> partitions;
  for (const std::string_view line : lines_of(output)) {
    auto pairs = pairs_of(line);
    if (!pairs.contains("PartitionName")) refuse("scontrol show partition", line);
    Partition& partition = partitions.emplace_back();
    partition.name = pairs["PartitionName"];
    partition.is_default = pairs["Default"] == "YES";
    partition.state = pairs["State"];
    partition.time_limit = pairs["MaxTime"];
    for (const auto& [name, value] : pairs) read_memory_limit(name, value, partition.memory);
    for (const char* name : {"MaxNodes", "TotalNodes"}) {
      if (!is_number(pairs[name])) continue;
      const int64_t nodes = to_number(pairs[name]);
      partition.most_nodes = std::min(partition.most_nodes.value_or(nodes), nodes);
    }
  }
  return partitions;
}

SlurmConfig read_config(std::string_view output) {
  SlurmConfig config;
  bool found = false;
  for (const std::string_view line : lines_of(output)) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    read_memory_limit(name, value, config.memory);
    if (name == "MaxArraySize" && is_number(value)) {
      config.limits.max_array_size = to_number(value);
      found = true;
    } else if (name == "ClusterName") {
      config.limits.cluster = without_placeholder(value);
    } else if (name == "PrivateData") {
      config.hides_jobs = value.find("jobs") != std::string_view::npos;
    } else if (name == "AccountingStorageType") {
      config.has_accounting = value.ends_with("slurmdbd") || value.ends_with("mysql");
    }
  }
  if (!found) refuse("scontrol show config", output.substr(0, output.find('\n')));
  return config;
}

std::string read_submitted(std::string_view output) {
  const std::string_view id = trimmed(output.substr(0, output.find_first_of(";\n")));
  if (!is_number(id)) refuse("sbatch", output.substr(0, output.find('\n')));
  return std::string(id);
}

std::optional<std::string> read_submission(std::string_view output,
                                           const std::filesystem::path& script) {
  std::optional<std::string> job;
  for (const std::string_view line : lines_of(output)) {
    const auto fields = fields_of("squeue", line, 2);
    if (!is_number(fields[0])) refuse("squeue", line);
    if (is_script(fields[1], script)) job = fields[0];
  }
  return job;
}

bool is_script(std::string_view command, const std::filesystem::path& script) {
  return command.ends_with('/' + (script.parent_path().filename() / script.filename()).string());
}

std::string job_of(std::string_view task) { return std::string(task.substr(0, task.find('_'))); }

}  // namespace fsdp
