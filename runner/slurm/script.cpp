#include "runner/slurm/script.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "contract/text/config_error.h"
#include "runner/launch/shell_quoted.h"
#include "runner/slurm/job_template.h"
#include "runner/slurm/options.h"
#include "runner/slurm/step_command.h"
#include "runner/slurm/template.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// A word of the script, from the value of `key`.
std::string word(const std::string& key, std::string_view value) {
  return shell_quoted(checked_line(key, value));
}

std::string word(const path& value) { return word(value.string(), value.string()); }

std::string joined_words(const std::string& key, const std::vector<std::string>& values,
                         const std::string& separator) {
  std::string text;
  for (const std::string& value : values) {
    if (!text.empty()) text += separator;
    text += word(key, value);
  }
  return text;
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

std::string place_of_template(const SlurmSpec& slurm) {
  return slurm.template_file.empty() ? "slurm_templates/job.sh" : slurm.template_file.string();
}

// A run that is asked to stop before it has begun would be started again and again.
void check_time_to_run(const SlurmSpec& slurm) {
  const std::optional<int64_t> limit_s = seconds_of(slurm.time);
  if (!limit_s || *limit_s > slurm.signal_before_end_s) return;
  throw ConfigError("", "slurm.signal_before_end_s",
                    "a run is asked to stop " + std::to_string(slurm.signal_before_end_s) +
                        " s before the end of its " + std::to_string(*limit_s) +
                        " s (slurm.time), so none is left to run in; lower it or raise slurm.time");
}

std::string array_option(const SlurmScript& script) {
  std::string option = "--array=0-" + std::to_string(script.array_tasks - 1);
  if (script.slurm.max_parallel > 0) option += '%' + std::to_string(script.slurm.max_parallel);
  return option;
}

// Collects the options of a script's header.
class Header {
 public:
  // Left out when the value is empty. `key` is what the value is from.
  void add(const std::string& name, const std::string& key, const std::string& value) {
    if (!value.empty()) options_.push_back(name + '=' + std::string(checked_line(key, value)));
  }
  void add(const std::string& name, int64_t value) {
    options_.push_back(name + '=' + std::to_string(value));
  }
  void add(std::string option) { options_.push_back(std::move(option)); }

  std::string text() const {
    std::vector<std::string> lines;
    for (const std::string& option : options_) lines.push_back("#SBATCH " + sbatch_quoted(option));
    return joined_lines(lines);
  }

 private:
  std::vector<std::string> options_;
};

void add_place(Header& header, const SlurmScript& script) {
  const SlurmSpec& slurm = script.slurm;
  header.add("--job-name", "slurm.job_name",
             slurm.job_name.empty() ? script.experiment : slurm.job_name);
  header.add("--comment", "token", "fsdp-run:" + script.token);
  header.add("--partition", "slurm.partition", slurm.partition);
  header.add("--account", "slurm.account", slurm.account);
  header.add("--qos", "slurm.qos", slurm.qos);
  header.add("--reservation", "slurm.reservation", slurm.reservation);
}

void add_resources(Header& header, const SlurmScript& script) {
  const SlurmSpec& slurm = script.slurm;
  header.add("--nodes", script.request.nodes);
  header.add("--ntasks", script.request.ranks());
  header.add("--ntasks-per-node", script.request.ranks_per_node);
  header.add("--cpus-per-task", slurm.cpus_per_task);
  if (script.request.gpus_per_node > 0) {
    header.add(std::string(
        checked_line("slurm.gpu_type", gpu_option(slurm, script.request.gpus_per_node))));
  }
  header.add("--mem", "slurm.mem", slurm.mem);
  header.add("--time", "slurm.time", slurm.time);
  header.add("--constraint", "slurm.constraint", slurm.constraint);
  header.add("--exclude", "slurm.exclude", slurm.exclude);
  if (slurm.exclusive) header.add("--exclusive");
}

void add_course(Header& header, const SlurmScript& script) {
  const SlurmSpec& slurm = script.slurm;
  const bool is_array = script.array_tasks > 0;
  if (is_array) header.add(array_option(script));
  header.add("--chdir", "working directory", script.working_directory.string());
  header.add("--output", "slurm.output",
             slurm.output.empty()
                 ? file_name_pattern(script.folder) + (is_array ? "/%A_%a.out" : "/%j.out")
                 : slurm.output);
  header.add("--error", "slurm.error", slurm.error);
  header.add("--open-mode=append");
  header.add(slurm.max_restarts > 0 ? "--requeue" : "--no-requeue");
  if (script.keeps_checkpoints) {
    check_time_to_run(slurm);
    header.add("--signal=B:USR1@" + std::to_string(slurm.signal_before_end_s));
  }
  header.add("--mail-user", "slurm.mail_user", slurm.mail_user);
  header.add("--mail-type", "slurm.mail_type", slurm.mail_type);
}

std::string sbatch_options(const SlurmScript& script) {
  refuse_other_clusters("slurm.sbatch_options", script.slurm.sbatch_options);
  Header header;
  // First: of an option that is there twice, sbatch takes the last.
  for (const std::string& option :
       checked_options("slurm.sbatch_options", script.slurm.sbatch_options)) {
    header.add(std::string(checked_line("slurm.sbatch_options", option)));
  }
  add_place(header, script);
  add_resources(header, script);
  add_course(header, script);
  return header.text();
}

std::string modules(const SlurmSpec& slurm) {
  if (slurm.modules.empty()) return "";
  return joined_lines({"command -v module >/dev/null || source /etc/profile", "module purge",
                       "module load " + joined_words("slurm.modules", slurm.modules, " ") +
                           " || fail \"a module of slurm.modules cannot be loaded\""});
}

std::string environment(const SlurmSpec& slurm) {
  std::vector<std::string> lines;
  for (const std::string& assignment : slurm.environment) {
    const size_t equals = assignment.find('=');
    const std::string name = assignment.substr(0, equals);
    constexpr std::string_view kDigits = "0123456789";
    if (equals == std::string::npos || name.empty() || kDigits.find(name[0]) != std::string::npos ||
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") !=
            std::string::npos) {
      throw ConfigError("", "slurm.environment", "'" + assignment + "' is not NAME=value");
    }
    lines.push_back("export " + name + '=' +
                    word("slurm.environment", std::string_view(assignment).substr(equals + 1)));
  }
  return joined_lines(lines);
}

std::string prologue(const SlurmSpec& slurm) {
  for (const std::string& line : slurm.prologue) checked_line("slurm.prologue", line);
  return joined_lines(slurm.prologue);
}

// sbatch reads its options up to the first command.
void check_options_come_first(std::string_view text, const std::string& place) {
  size_t begin = 0;
  while (begin < text.size() && !text.substr(begin).starts_with("{{sbatch_options}}")) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t") != std::string_view::npos && !line.starts_with('#')) {
      throw ConfigError(place, "slurm.template",
                        "{{sbatch_options}} must be a line before the first command, '" +
                            std::string(line) + "': sbatch reads no options behind it");
    }
    begin = end + 1;
  }
}

}  // namespace

std::string template_text(const SlurmSpec& slurm) {
  if (slurm.template_file.empty()) {
    return std::string(kJobTemplate);
  }
  std::ifstream file(slurm.template_file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file || text.empty()) {
    throw ConfigError(
        "", "slurm.template",
        slurm.template_file.string() + " cannot be read or is empty; copy one of slurm_templates/");
  }
  return text;
}

std::string run_configuration(std::string_view run, const RunSpec& spec) {
  const SlurmRequest request = slurm_request(spec);
  const std::string ranks = std::to_string(request.ranks());
  const std::string device = request.gpus_per_node > 0 ? "GPU" : "CPU rank";
  const std::string devices = ranks + ' ' + device + (request.ranks() == 1 ? "" : "s");
  const std::string nodes =
      std::to_string(request.nodes) + (request.nodes == 1 ? " node" : " nodes");
  const int64_t accumulation = spec.batch.gradient_accumulation_steps.value_or(1);
  return std::string(run) + ": " + devices + " on " + nodes + ", total batch " +
         std::to_string(total_batch(spec)) + " = " + devices + " x per-device batch " +
         std::to_string(spec.batch.size_per_rank) + " x accumulation " +
         std::to_string(accumulation);
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
  std::string text = filled_template(template_text, values, place);
  check_options_come_first(template_text, place);
  return text;
}

void check_script(const RunSpec& spec) {
  const SlurmRequest request = slurm_request(spec);
  const bool is_in_container = spec.slurm.container.engine != ContainerEngine::kNone;
  step_command(spec.slurm, request, "/fsdp-train", "/",
               is_in_container ? input_folders(spec) : std::vector<path>());
  render_script(template_text(spec.slurm),
                {.slurm = spec.slurm,
                 .request = request,
                 .experiment = "experiment",
                 .token = "token",
                 .folder = "/submission",
                 .runner = "/fsdp-run",
                 .working_directory = "/",
                 .array_tasks = spec.slurm.mode == SlurmMode::kPerRun ? 1 : 0,
                 .keeps_checkpoints = wants_checkpoints(spec)});
}

}  // namespace fsdp
