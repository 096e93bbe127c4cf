#include "runner/cluster/script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <ranges>
#include <regex>
#include <set>
#include <string>

#include "base/system/program.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "formats/inputs/inputs.h"
#include "runner/cluster/request.h"
#include "runner/cluster/step_launcher.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Quotes the value of `key` as one word of the script.
std::string word(const std::string& key, std::string_view value) {
  return shell_quoted(checked_line(key, value));
}

std::string word(const path& value) { return word(value.string(), value.string()); }

std::string place_of_template(const SlurmSpec& slurm) {
  return slurm.template_file.empty() ? "slurm_templates/job.sh" : slurm.template_file.string();
}

// A run that is asked to stop before it begins would be restarted again and again.
void check_time_to_run(const SlurmSpec& slurm) {
  const std::optional<int64_t> limit_s = seconds_of(slurm.time);
  if (!limit_s || *limit_s > slurm.signal_before_end_s) return;
  throw ConfigError(
      "", "slurm.signal_before_end_s",
      fmt::format("a run is asked to stop {} s before the end of its {} s (slurm.time), so no time "
                  "is left to train; lower slurm.signal_before_end_s or raise slurm.time",
                  slurm.signal_before_end_s, *limit_s));
}

// The value of --dependency: the user's jobs, and the earlier jobs that slurm.max_parallel waits
// for.
std::string dependencies(const SlurmScript& script) {
  const std::string& own = script.slurm.dependency;
  if (script.earlier_jobs.empty()) return own;
  if (own.find('?') != std::string::npos) {
    throw ConfigError(
        "", "slurm.dependency",
        "'?' (any of several) cannot be combined with the earlier jobs of the sweep, for which "
        "slurm.max_parallel waits; leave out the '?' or slurm.max_parallel");
  }
  return fmt::format("{}{}afterany:{}", own, own.empty() ? "" : ",",
                     fmt::join(script.earlier_jobs, ":"));
}

// The lines of the script's header. Leaves out options with an empty value.
std::string sbatch_options(const SlurmScript& script) {
  const SlurmSpec& slurm = script.slurm;
  const SlurmRequest& request = script.request;
  const bool is_array = script.array_tasks > 0;
  std::vector<std::string> lines;
  const auto add = [&](std::string_view option) {
    lines.push_back("#SBATCH " + sbatch_quoted(option));
  };
  const auto add_value = [&](std::string_view name, const char* key, const std::string& value) {
    if (!value.empty()) add(fmt::format("{}={}", name, checked_line(key, value)));
  };
  constexpr const char* kOwnOptions = "slurm.sbatch_options";
  refuse_script_options(slurm);
  for (const std::string& option : checked_options(kOwnOptions, slurm.sbatch_options)) {
    add(checked_line(kOwnOptions, option));
  }
  add_value("--job-name", "slurm.job_name",
            slurm.job_name.empty() ? script.experiment : slurm.job_name);
  add_value("--partition", "slurm.partition", slurm.partition);
  add_value("--account", "slurm.account", slurm.account);
  add_value("--qos", "slurm.qos", slurm.qos);
  add_value("--reservation", "slurm.reservation", slurm.reservation);
  add_value("--wckey", "slurm.wckey", slurm.wckey);
  add_value("--licenses", "slurm.licenses", slurm.licenses);
  add_value("--dependency", "slurm.dependency", dependencies(script));
  add(fmt::format("--nodes={}", request.nodes));
  add(fmt::format("--ntasks={}", request.ranks()));
  add(fmt::format("--ntasks-per-node={}", request.ranks_per_node));
  add(fmt::format("--cpus-per-task={}", slurm.cpus_per_task));
  if (request.gpus_per_node > 0) {
    add(checked_line("slurm.gpu_type", gpu_option(slurm, request.gpus_per_node)));
  }
  add_value("--mem", "slurm.mem", slurm.mem);
  add_value("--time", "slurm.time", slurm.time);
  add_value("--constraint", "slurm.constraint", slurm.constraint);
  add_value("--nodelist", "slurm.nodelist", slurm.nodelist);
  add_value("--exclude", "slurm.exclude", slurm.exclude);
  if (slurm.exclusive) add("--exclusive");
  if (is_array) {
    const std::string at_once =
        slurm.max_parallel > 0 ? fmt::format("%{}", slurm.max_parallel) : "";
    add(fmt::format("--array=0-{}{}", script.array_tasks - 1, at_once));
  }
  add_value("--chdir", "working directory", script.working_directory.string());
  add_value("--output", "slurm.output",
            slurm.output.empty()
                ? file_name_pattern(script.folder) + (is_array ? "/%A_%a.out" : "/%j.out")
                : slurm.output);
  add_value("--error", "slurm.error", slurm.error);
  add("--open-mode=append");
  add(slurm.max_restarts > 0 ? "--requeue" : "--no-requeue");
  if (script.keeps_checkpoints) {
    check_time_to_run(slurm);
    add(fmt::format("--signal=B:USR1@{}", slurm.signal_before_end_s));
  }
  add_value("--mail-user", "slurm.mail_user", slurm.mail_user);
  add_value("--mail-type", "slurm.mail_type", slurm.mail_type);
  return fmt::to_string(fmt::join(lines, "\n"));
}

std::string modules(const SlurmSpec& slurm) {
  if (slurm.modules.empty()) return "";
  std::string names;
  for (const std::string& name : slurm.modules) names += ' ' + word("slurm.modules", name);
  return fmt::format(
      "command -v module >/dev/null || source /etc/profile\n"
      "module purge\n"
      "module load{} || fail \"a module of slurm.modules cannot be loaded\"",
      names);
}

std::string environment(const SlurmSpec& slurm) {
  std::vector<std::string> lines;
  for (const std::string& variable : slurm.environment) {
    const size_t value = variable.find('=') + 1;
    if (!assignment().form->matches(variable.substr(0, value))) {
      throw ConfigError("", "slurm.environment", "'" + variable + "' is not NAME=value");
    }
    lines.push_back("export " + variable.substr(0, value) +
                    word("slurm.environment", variable.substr(value)));
  }
  return fmt::to_string(fmt::join(lines, "\n"));
}

std::string prologue(const SlurmSpec& slurm) {
  if (slurm.prologue.empty()) return "";
  for (const std::string& line : slurm.prologue) checked_line("slurm.prologue", line);
  // The trap ignores failed commands in files that a line sources.
  constexpr const char* kPrologue =
      R"(trap '((${{#BASH_SOURCE[@]}} > 1)) || {{ mapfile -t -s $((LINENO - 1)) -n 1 <"$0"; )"
      R"(fail "a line of slurm.prologue failed: ${{MAPFILE[0]}}"; }}' ERR)"
      "\n{}\ntrap - ERR";
  return fmt::format(kPrologue, fmt::join(slurm.prologue, "\n"));
}

// sbatch reads options only before the first command.
void check_options_come_first(std::string_view text, const std::string& place) {
  for (const auto part : text | std::views::split('\n')) {
    const std::string_view line(part.begin(), part.end());
    if (line.starts_with("{{sbatch_options}}")) return;
    if (line.find_first_not_of(" \t") != std::string_view::npos && !line.starts_with('#')) {
      throw ConfigError(place, "slurm.template",
                        fmt::format("{{{{sbatch_options}}}} must be a line before the first "
                                    "command, '{}': sbatch reads no options after it",
                                    line));
    }
  }
}

struct TemplateValue {
  std::string name;
  std::string text;  // one word or several lines, without a line break at the end
};

[[noreturn]] void refuse(const std::string& place, const std::string& problem,
                         const std::vector<TemplateValue>& values) {
  std::vector<std::string> names;
  for (const TemplateValue& value : values) names.push_back("{{" + value.name + "}}");
  throw ConfigError(place, "slurm.template", problem + "; allowed: " + joined(names));
}

// Replaces every {{name}} in `text`. A line that holds only a name with an empty value is left out.
// Braces around anything else belong to the script. Throws ConfigError (place: `place`) for a name
// without a value, and for a nonempty value without its name in the text.
std::string filled_template(const std::string& text, const std::vector<TemplateValue>& values,
                            const std::string& place) {
  static const std::regex kPlaceholder(R"(\{\{([a-z_]+)\}\})");
  std::string filled;
  std::set<std::string> seen;
  auto from = text.begin();
  for (std::sregex_iterator found(text.begin(), text.end(), kPlaceholder), end; found != end;
       ++found) {
    const auto begin = (*found)[0].first;
    const auto value = std::ranges::find(values, found->str(1), &TemplateValue::name);
    if (value == values.end())
      refuse(place, found->str() + " is not a name that a template may use", values);
    seen.insert(value->name);
    filled.append(from, begin).append(value->text);
    from = (*found)[0].second;
    const bool is_whole_line =
        (begin == text.begin() || begin[-1] == '\n') && from != text.end() && *from == '\n';
    if (value->text.empty() && is_whole_line) ++from;
  }
  filled.append(from, text.end());
  for (const auto& [name, value] : values) {
    if (value.empty() || seen.contains(name)) continue;
    refuse(place, "{{" + name + "}} is missing, so its value would have no effect", values);
  }
  return filled;
}

}  // namespace

std::string template_text(const SlurmSpec& slurm) {
  if (slurm.template_file.empty()) return std::string(kJobTemplate);
  std::ifstream file(slurm.template_file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file || text.empty()) {
    throw ConfigError(
        "", "slurm.template",
        slurm.template_file.string() + " cannot be read or is empty; copy slurm_templates/job.sh");
  }
  return text;
}

std::string run_configuration(std::string_view run, const RunSpec& spec) {
  const SlurmRequest request = slurm_request(spec);
  const std::string devices =
      counted(request.ranks(), request.gpus_per_node > 0 ? "GPU" : "CPU rank");
  return fmt::format("{}: {} on {}, total batch {} = {} x per-device batch {} x accumulation {}",
                     run, devices, counted(request.nodes, "node"), total_batch(spec), devices,
                     spec.batch.size_per_rank, spec.batch.gradient_accumulation_steps.value_or(1));
}

std::string render_script(std::string_view template_text, const SlurmScript& script) {
  const std::string place = place_of_template(script.slurm);
  const std::vector<TemplateValue> values = {{"sbatch_options", sbatch_options(script)},
                                             {"working_directory", word(script.working_directory)},
                                             {"modules", modules(script.slurm)},
                                             {"environment", environment(script.slurm)},
                                             {"prologue", prologue(script.slurm)},
                                             {"runner", word(script.runner)},
                                             {"submission_folder", word(script.folder)}};
  std::string text = filled_template(std::string(template_text), values, place);
  check_options_come_first(template_text, place);
  return text;
}

void check_script(const RunSpec& spec) {
  const SlurmRequest request = slurm_request(spec);
  std::vector<path> files;
  if (spec.slurm.container.engine != ContainerEngine::kNone) {
    for (const auto& [key, file] : input_files(spec)) files.push_back(file);
  }
  step_command(spec.slurm, request, "/fsdp-train", "/", folders_to_bind(files));
  render_script(template_text(spec.slurm),
                {.slurm = spec.slurm,
                 .request = request,
                 .experiment = "experiment",
                 .folder = "/submission",
                 .runner = "/fsdp-run",
                 .working_directory = "/",
                 .array_tasks = spec.slurm.mode == SlurmMode::kPerRun ? 1 : 0,
                 .keeps_checkpoints = wants_checkpoints(spec)});
}

namespace {

// Reverses sbatch_quoted(), as sbatch does.
std::string unquoted(std::string_view option) {
  std::string text;
  for (size_t i = 0; i < option.size(); ++i) {
    if (option[i] == '"') continue;
    if (option[i] == '\\' && i + 1 < option.size()) ++i;
    text += option[i];
  }
  return text;
}

// The options by name. The last of repeated options wins, as in sbatch.
std::map<std::string, std::string> options_of(const std::filesystem::path& script) {
  constexpr std::string_view kStart = "#SBATCH ";
  std::map<std::string, std::string> options;
  std::ifstream file(script);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kStart)) continue;
    const std::string option = unquoted(std::string_view(line).substr(kStart.size()));
    const size_t equals = option.find('=');
    if (equals != std::string::npos) options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  return options;
}

std::string filled(std::string_view pattern, const std::map<char, std::string>& values) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const auto value =
        pattern[i] == '%' && i + 1 < pattern.size() ? values.find(pattern[i + 1]) : values.end();
    if (value == values.end()) {
      text += pattern[i];
    } else {
      text += value->second;
      ++i;
    }
  }
  return text;
}

}  // namespace

std::filesystem::path job_output(const std::filesystem::path& folder, std::string_view task) {
  std::map<std::string, std::string> options = options_of(folder / kScriptName);
  const std::string& file = options.contains("--error") ? options["--error"] : options["--output"];
  if (file.empty()) {  // the script is gone
    return folder / (std::string(task) + ".out");
  }
  std::map<char, std::string> values = {{'x', options["--job-name"]}, {'%', "%"}};
  const size_t underscore = task.find('_');
  if (!task.empty()) values['A'] = task.substr(0, underscore);
  if (underscore != std::string_view::npos) {
    values['a'] = task.substr(underscore + 1);
  } else if (!task.empty()) {
    values['j'] = task;
  }
  return std::filesystem::path(options["--chdir"]) / filled(file, values);
}

std::string output_text(const std::filesystem::path& job_output) {
  const std::string name = job_output.string();
  std::error_code unreadable;
  const bool is_known = name.find('%') == std::string::npos;
  return is_known && !std::filesystem::exists(job_output, unreadable) ? name + " (does not exist)"
                                                                      : name;
}

std::string last_message(const std::filesystem::path& job_output) {
  constexpr std::string_view kStart = "fsdp-run: ";
  std::string message;
  std::ifstream file(job_output);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kStart)) message = visible_line(line.substr(kStart.size()));
  }
  return message;
}

void create_output_folders(const SlurmScript& script) {
  for (const auto& [key, file] : {std::pair("slurm.output", path(script.slurm.output)),
                                  std::pair("slurm.error", path(script.slurm.error))}) {
    if (file.parent_path().string().find('%') != std::string::npos) continue;
    const path folder = (script.working_directory / file).parent_path();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!error) continue;
    throw ConfigError(
        "", key,
        fmt::format("the folder {} cannot be created: {}; name a file in another folder",
                    folder.string(), error.message()));
  }
}

}  // namespace fsdp
