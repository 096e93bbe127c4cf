#include "runner/cluster/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <set>
#include <string>

#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

bool begins_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         strncasecmp(text.data(), prefix.data(), prefix.size()) == 0;
}

}  // namespace

std::string_view checked_line(const std::string& key, std::string_view value) {
  if (std::ranges::any_of(value,
                          [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; })) {
    throw ConfigError("", key,
                      "has a line break or another control character, which a script cannot hold");
  }
  return value;
}

std::string gpu_option(const SlurmSpec& slurm, int64_t gpus_per_node) {
  return fmt::format("{}{}{}{}",
                     slurm.gpu_request == GpuRequest::kGres ? "--gres=gpu:" : "--gpus-per-node=",
                     slurm.gpu_type, slurm.gpu_type.empty() ? "" : ":", gpus_per_node);
}

std::vector<std::string> checked_options(const std::string& key,
                                         const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    const std::string_view name = std::string_view(option).substr(0, option.find('='));
    if (name.starts_with('-') && name.find_first_of(" \t") != std::string_view::npos) {
      std::string joined = option;
      joined[name.find_first_of(" \t")] = '=';
      throw ConfigError("", key,
                        fmt::format("'{}' would reach the program as one word; write '{}', or give "
                                    "each word as an item of the list",
                                    option, joined));
    }
  }
  return options;
}

std::span<const ScriptOption> script_options() {
  // An option comes before longer options that begin with its name.
  static constexpr ScriptOption kOptions[] = {
      {"--job-name", "slurm.job_name", "SBATCH_JOB_NAME"},
      {"--partition", "slurm.partition", "SBATCH_PARTITION", true},
      {"--account", "slurm.account", "SBATCH_ACCOUNT", true},
      {"--qos", "slurm.qos", "SBATCH_QOS", true},
      {"--reservation", "slurm.reservation", "SBATCH_RESERVATION", true},
      {"--wckey", "slurm.wckey", "SBATCH_WCKEY", true},
      {"--licenses", "slurm.licenses"},
      {"--dependency", "slurm.dependency"},
      {"--nodes", "slurm.nodes"},
      {"--ntasks", "strategy.ranks"},
      {"--ntasks-per-node", "slurm.nodes"},
      {"--cpus-per-task", "slurm.cpus_per_task"},
      {"--gres", "slurm.gpu_request", "SBATCH_GRES"},
      {"--gpus", "slurm.gpus_per_node", "SBATCH_GPUS"},
      {"--gpus-per-node", "slurm.gpus_per_node", "SBATCH_GPUS_PER_NODE"},
      {"--gpus-per-task", "slurm.gpus_per_node", "SBATCH_GPUS_PER_TASK"},
      {"--gpus-per-socket", "slurm.gpus_per_node"},
      {"--mem", "slurm.mem", "SBATCH_MEM_PER_NODE", true},
      {"--mem-per-cpu", "slurm.mem", "SBATCH_MEM_PER_CPU", true},
      {"--mem-per-gpu", "slurm.mem", "SBATCH_MEM_PER_GPU", true},
      {"--time", "slurm.time", "SBATCH_TIMELIMIT", true},
      {"--constraint", "slurm.constraint", "SBATCH_CONSTRAINT", true},
      {"--nodelist", "slurm.nodelist"},
      {"--exclude", "slurm.exclude"},
      {"--exclusive", "slurm.exclusive", "SBATCH_EXCLUSIVE", true},
      {"--output", "slurm.output", "SBATCH_OUTPUT"},
      {"--error", "slurm.error", "SBATCH_ERROR", true},
      {"--requeue", "slurm.max_restarts", "SBATCH_REQUEUE"},
      {"--no-requeue", "slurm.max_restarts", "SBATCH_NO_REQUEUE"},
      {"--signal", "slurm.signal_before_end_s", "SBATCH_SIGNAL", true},
      {"--mail-user", "slurm.mail_user"},
      {"--mail-type", "slurm.mail_type"},
      {"--array", "", "SBATCH_ARRAY_INX"},
      {"--chdir", ""},
      {"--open-mode", "", "SBATCH_OPEN_MODE"},
      {"--input", "", "SBATCH_INPUT"},
      {"--wait", "", "SBATCH_WAIT"},
      {"--test-only", ""},
      {"--verbose", "", "SBATCH_DEBUG"},
      {"--clusters", "", "SBATCH_CLUSTERS"}};
  return kOptions;
}

void refuse_script_options(const SlurmSpec& slurm) {
  for (const std::string& option : slurm.sbatch_options) {
    const std::string_view name = std::string_view(option).substr(0, option.find_first_of("= \t"));
    const auto own = std::ranges::find_if(
        script_options(), [&](const ScriptOption& each) { return each.name.starts_with(name); });
    if (own == script_options().end()) continue;
    if (own->name == "--gres" && slurm.gpu_request == GpuRequest::kGpusPerNode) continue;
    if (option.starts_with("--exclusive=") && !slurm.exclusive) continue;  // such as =user
    const std::string problem =
        own->name == "--clusters"
            ? "sends jobs to another cluster, but fsdp-run asks only this cluster about them; "
              "leave it out and call fsdp-run on a login node of the other cluster"
        : own->key.empty() ? "is set by fsdp-run; leave it out"
                           : fmt::format("is set by {}; set that key", own->key);
    throw ConfigError("", "slurm.sbatch_options", fmt::format("'{}' {}", option, problem));
  }
}

std::string sbatch_quoted(std::string_view option) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%[]&|*()";
  std::string text;
  bool is_plain = true;
  for (size_t i = 0; i < option.size(); ++i) {
    const std::string_view rest = option.substr(i);
    const bool is_marker =
        begins_with_ignoring_case(rest, "hetjob") || begins_with_ignoring_case(rest, "packjob");
    if (is_marker || rest[0] == '"' || rest[0] == '\\') text += '\\';
    text += rest[0];
    is_plain = is_plain && kPlain.find(rest[0]) != std::string_view::npos;
  }
  return is_plain ? text : '"' + text + '"';
}

std::string file_name_pattern(const std::filesystem::path& path) {
  std::string pattern;
  for (const char c : path.string()) {
    if (c == '\\') {
      throw ConfigError("", "",
                        path.string() +
                            ": Slurm cannot write to a folder whose path has a "
                            "backslash; choose another with --results");
    }
    pattern.append(c == '%' ? 2 : 1, c);
  }
  return pattern;
}

std::optional<int64_t> seconds_of(std::string_view time) {
  std::vector<int64_t> numbers;
  for (const char c : time) {
    if (numbers.empty() || c < '0' || c > '9') numbers.push_back(0);
    if (c >= '0' && c <= '9') numbers.back() = numbers.back() * 10 + (c - '0');
  }
  if (numbers.empty()) return std::nullopt;
  // Without days the last number is seconds, but a single number is minutes.
  static constexpr std::array kUnits = {86400, 3600, 60, 1};
  const bool has_days = time.find('-') != std::string_view::npos;
  const size_t first_unit = has_days              ? 0
                            : numbers.size() == 1 ? 2
                                                  : 4 - std::min<size_t>(numbers.size(), 3);
  int64_t seconds = 0;
  for (size_t i = 0; i < numbers.size() && first_unit + i < kUnits.size(); ++i) {
    seconds += numbers[i] * kUnits[first_unit + i];
  }
  return seconds == 0 ? std::nullopt : std::optional(seconds);
}

namespace {

bool is_on_gpus(const RunSpec& spec) {
  if (spec.device == DeviceKind::kAuto) return spec.slurm.gpus_per_node > 0;
  return spec.device == DeviceKind::kCuda;
}

// The numbers of nodes, up to `most`, that divide `ranks`: "1, 2, 4".
std::string even_numbers_of_nodes(int64_t ranks, int64_t most) {
  const auto is_even = [&](int64_t nodes) { return ranks % nodes == 0; };
  return fmt::to_string(fmt::join(
      std::views::iota(int64_t{1}, std::min(ranks, most) + 1) | std::views::filter(is_even), ", "));
}

SlurmRequest request_on_gpus(const SlurmSpec& slurm, int64_t ranks) {
  const int64_t most_gpus = slurm.gpus_per_node;
  if (most_gpus < 1) {
    throw ConfigError("", "slurm.gpus_per_node",
                      fmt::format("is {}, but the run is on GPUs ({}); set the GPUs of a node of "
                                  "the cluster, or device: cpu",
                                  most_gpus, counted(ranks, "rank")));
  }
  const int64_t nodes = (ranks + most_gpus - 1) / most_gpus;
  if (nodes > slurm.nodes) {
    throw ConfigError("", "slurm.nodes",
                      fmt::format("{} on nodes of {} need {}, and slurm.nodes allows {}; raise it, "
                                  "or lower strategy.ranks to {}",
                                  counted(ranks, "rank"), counted(most_gpus, "GPU"),
                                  counted(nodes, "node"), slurm.nodes, slurm.nodes * most_gpus));
  }
  if (ranks % nodes != 0) {
    throw ConfigError(
        "", "slurm.gpus_per_node",
        fmt::format("{} do not spread evenly over {} of {}; make strategy.ranks a multiple of {}, "
                    "or set slurm.gpus_per_node to a number that divides the ranks",
                    counted(ranks, "rank"), counted(nodes, "node"), counted(most_gpus, "GPU"),
                    most_gpus));
  }
  return {.nodes = nodes, .ranks_per_node = ranks / nodes, .gpus_per_node = ranks / nodes};
}

SlurmRequest request_on_cpus(const SlurmSpec& slurm, int64_t ranks) {
  const int64_t most_a_node = (ranks + slurm.nodes - 1) / slurm.nodes;
  const int64_t nodes = (ranks + most_a_node - 1) / most_a_node;
  if (ranks % nodes != 0) {
    throw ConfigError(
        "", "slurm.nodes",
        fmt::format("{} do not spread evenly over {}; allowed: {}", counted(ranks, "rank"),
                    counted(nodes, "node"), even_numbers_of_nodes(ranks, slurm.nodes)));
  }
  return {.nodes = nodes, .ranks_per_node = ranks / nodes, .gpus_per_node = 0};
}

}  // namespace

SlurmRequest slurm_request(const SlurmSpec& slurm, int64_t ranks, bool uses_gpus) {
  return uses_gpus ? request_on_gpus(slurm, ranks) : request_on_cpus(slurm, ranks);
}

SlurmRequest slurm_request(const RunSpec& spec) {
  return slurm_request(spec.slurm, spec.strategy.ranks, is_on_gpus(spec));
}

SlurmRequest largest(const std::vector<SlurmRequest>& requests) {
  SlurmRequest all;
  for (const SlurmRequest& request : requests) {
    all.nodes = std::max(all.nodes, request.nodes);
    all.ranks_per_node = std::max(all.ranks_per_node, request.ranks_per_node);
    all.gpus_per_node = std::max(all.gpus_per_node, request.gpus_per_node);
  }
  return all;
}

std::string most_held_text(const std::vector<RunSpec>& runs) {
  if (runs.empty()) return "";
  std::vector<SlurmRequest> requests;
  double gpu_hours = 0, node_hours = 0;
  const bool is_one_job = runs.front().slurm.mode == SlurmMode::kAllocation;
  for (const RunSpec& run : runs) requests.push_back(slurm_request(run));
  if (is_one_job) requests = {largest(requests)};
  for (size_t i = 0; i < requests.size(); ++i) {
    const SlurmRequest& request = requests[i];
    const SlurmSpec& slurm = runs[i].slurm;
    const std::optional<int64_t> limit_s = seconds_of(slurm.time);
    if (!limit_s) return "without slurm.time, only the partition limits how long jobs run";
    const double hours = static_cast<double>(*limit_s * request.nodes) / 3600;
    const int64_t gpus = slurm.exclusive ? slurm.gpus_per_node : request.gpus_per_node;
    node_hours += hours;
    gpu_hours += request.gpus_per_node > 0 ? hours * static_cast<double>(gpus) : 0;
  }
  const std::string nodes = fmt::format("{:.3g} node-hours, by slurm.time", node_hours);
  if (gpu_hours == 0) return "at most " + nodes;
  return fmt::format("at most {:.3g} GPU-hours and {}", gpu_hours, nodes);
}

bool may_share_array(const RunSpec& a, const RunSpec& b) {
  return a.slurm == b.slurm && slurm_request(a) == slurm_request(b) &&
         wants_checkpoints(a) == wants_checkpoints(b);
}

namespace {

// Returns `file` with its first symbolic link replaced by the link's target. nullopt: it has none.
std::optional<std::filesystem::path> after_first_link(const std::filesystem::path& file) {
  std::filesystem::path name;
  for (auto part = file.begin(); part != file.end(); ++part) {
    std::error_code unreadable;
    if (!std::filesystem::is_symlink(name / *part, unreadable)) {
      name = (name / *part).lexically_normal();  // has no link, so ".." may be resolved
      continue;
    }
    name /= std::filesystem::read_symlink(name / *part, unreadable);
    while (++part != file.end()) name /= *part;
    return name;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::filesystem::path> folders_to_bind(
    const std::vector<std::filesystem::path>& files) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  std::set<std::filesystem::path> real, linked;
  for (const std::filesystem::path& file : files) {
    std::optional<std::filesystem::path> name = std::filesystem::absolute(file);
    for (int links = 0; name && links <= kMostLinks; ++links) {
      const std::filesystem::path folder = name->lexically_normal().parent_path();
      name = after_first_link(*name);
      (name ? linked : real).insert(folder);
    }
  }
  std::vector<std::filesystem::path> folders(real.begin(), real.end());
  std::ranges::set_difference(linked, real, std::back_inserter(folders));
  return folders;
}

void check_one_job(const std::string& one_point, const SlurmSpec& one,
                   const std::string& other_point, const SlurmSpec& other) {
  if (one == other) return;
  throw ConfigError(
      "", "slurm",
      fmt::format("'{}' and '{}' have different slurm keys, but with slurm.mode: allocation all "
                  "runs are in one job; give both the same keys, or set slurm.mode: per_run",
                  one_point, other_point));
}

}  // namespace fsdp
