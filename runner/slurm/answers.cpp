#include "runner/slurm/answers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "runner/slurm/options.h"

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

[[noreturn]] void refuse(const std::string& program, std::string_view line) {
  throw SlurmUnavailable(program + " answers what is not its format: '" + std::string(line) + "'");
}

// Calls `use` with each line that is not empty.
template <typename Use>
void each_line(std::string_view text, const Use& use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The first `count` fields of a line, the last of which takes the rest.
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

// The tasks of "0-2,7", as 0, 1, 2 and 7, or of "0-98:2", as 0, 2, 4 and on.
std::vector<int64_t> numbers_of(const std::string& program, std::string_view list) {
  constexpr int64_t kMostNumbers = 4'000'001;  // MaxArraySize's own maximum
  std::vector<int64_t> numbers;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
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

// "12", "12_3", and what waits of an array in one line, "12_[0-2,7%4]", as its tasks.
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
    tasks.push_back(std::string(job) + '_' + std::to_string(number));
  }
  return tasks;
}

// The phase of a state. A task in one that we do not know is there, and kEnding says no more.
TaskPhase phase_of(std::string_view state) {
  static constexpr std::array kQueued = {"PENDING"sv,      "CONFIGURING"sv,  "REQUEUED"sv,
                                         "REQUEUE_FED"sv,  "REQUEUE_HOLD"sv, "SPECIAL_EXIT"sv,
                                         "RESV_DEL_HOLD"sv};
  static constexpr std::array kRunning = {"RUNNING"sv, "SUSPENDED"sv, "STOPPED"sv, "RESIZING"sv,
                                          "SIGNALING"sv};
  static constexpr std::array kEnded = {
      "COMPLETED"sv, "FAILED"sv,    "CANCELLED"sv, "TIMEOUT"sv,   "OUT_OF_MEMORY"sv,
      "NODE_FAIL"sv, "BOOT_FAIL"sv, "DEADLINE"sv,  "PREEMPTED"sv, "REVOKED"sv};
  const auto is_in = [&](const auto& words) {
    return std::find(words.begin(), words.end(), state) != words.end();
  };
  if (is_in(kQueued)) return TaskPhase::kQueued;
  if (is_in(kRunning)) return TaskPhase::kRunning;
  if (is_in(kEnded)) return TaskPhase::kEnded;
  return TaskPhase::kEnding;  // COMPLETING, STAGE_OUT
}

// Without what Slurm writes where there is nothing.
std::string_view something(std::string_view text) {
  for (const std::string_view nothing : {"None"sv, "None assigned"sv, "(null)"sv, "n/a"sv}) {
    if (text == nothing) return "";
  }
  return text;
}

// `state` may go on behind its word: "CANCELLED by 1000".
void add_tasks(const std::string& program, std::string_view id, std::string_view state,
               std::string_view reason, std::string_view node_list, std::string_view time_left,
               std::vector<TaskState>& tasks) {
  const std::string_view word = state.substr(0, state.find(' '));
  const std::vector<std::string> ids = tasks_of(program, id);
  const TaskPhase phase = phase_of(word);
  TaskState task{.job = "",
                 .phase = phase,
                 .state = std::string(word),
                 .reason = std::string(something(reason)),
                 .node_list = std::string(something(node_list))};
  const bool has_time = time_left.find_first_not_of("0123456789-:") == std::string_view::npos;
  if (phase == TaskPhase::kRunning && has_time && !time_left.empty()) {
    task.seconds_left = seconds_of(time_left).value_or(0);
  }
  for (const std::string& of_array : ids) {
    task.job = of_array;
    tasks.push_back(task);
  }
}

// The words NAME=value of a line; a value may have spaces, which begin words without a '='.
std::map<std::string, std::string> pairs_of(std::string_view line) {
  std::map<std::string, std::string> pairs;
  std::string* value = nullptr;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      value = &pairs.try_emplace(std::string(word.substr(0, equals))).first->second;
      *value = word.substr(equals + 1);
    } else if (value != nullptr && !word.empty()) {
      *value += ' ';
      *value += word;
    }
  }
  return pairs;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

std::vector<TaskState> read_squeue(std::string_view output) {
  std::vector<TaskState> tasks;
  each_line(output, [&](std::string_view line) {
    const auto fields = fields_of("squeue", line, 5);
    add_tasks("squeue", fields[0], fields[1], fields[4], fields[3], fields[2], tasks);
  });
  return tasks;
}

std::vector<TaskState> read_sacct(std::string_view output) {
  std::vector<TaskState> tasks;
  each_line(output, [&](std::string_view line) {
    const auto fields = fields_of("sacct", line, 3);
    add_tasks("sacct", fields[0], fields[1], "", fields[2], "", tasks);
  });
  return tasks;
}

std::vector<TaskState> read_scontrol_jobs(std::string_view output) {
  std::vector<TaskState> tasks;
  each_line(output, [&](std::string_view line) {
    auto pairs = pairs_of(line);
    if (!pairs.contains("JobId") || !pairs.contains("JobState")) refuse("scontrol", line);
    std::string id = pairs["JobId"];
    if (pairs.contains("ArrayTaskId")) {
      const std::string& numbers = pairs["ArrayTaskId"];
      id = pairs["ArrayJobId"] + '_' + (is_number(numbers) ? numbers : '[' + numbers + ']');
    }
    add_tasks("scontrol", id, pairs["JobState"], pairs["Reason"], pairs["NodeList"], "", tasks);
  });
  return tasks;
}

SlurmConfig read_config(std::string_view output) {
  SlurmConfig config;
  bool found = false;
  each_line(output, [&](std::string_view line) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    if (name == "MaxArraySize" && is_number(value)) {
      config.max_array_size = to_number(value);
      found = true;
    } else if (name == "ClusterName") {
      config.cluster = something(value);
    } else if (name == "AccountingStorageType") {
      config.has_accounting = value.ends_with("slurmdbd") || value.ends_with("mysql");
    }
  });
  if (!found) refuse("scontrol show config", output.substr(0, output.find('\n')));
  return config;
}

std::string read_submitted(std::string_view output) {
  const std::string_view id = trimmed(output.substr(0, output.find_first_of(";\n")));
  if (!is_number(id)) refuse("sbatch", output.substr(0, output.find('\n')));
  return std::string(id);
}

std::optional<std::string> read_submission(std::string_view output, std::string_view token) {
  std::optional<std::string> job;
  each_line(output, [&](std::string_view line) {
    const auto fields = fields_of("squeue", line, 2);
    if (!is_number(fields[0])) refuse("squeue", line);
    if (fields[1] == "fsdp-run:" + std::string(token)) job = fields[0];
  });
  return job;
}

std::string job_of(std::string_view task) { return std::string(task.substr(0, task.find('_'))); }

}  // namespace fsdp
