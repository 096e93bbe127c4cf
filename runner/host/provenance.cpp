#include "runner/host/provenance.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <fstream>
#include <string_view>

#include "contract/text/foreign_json.h"
#include "contract/text/json.h"
#include "runner/host/environment.h"

namespace fsdp {
namespace {

constexpr std::array<std::string_view, 11> kPrefixes = {"CUDA_",    "CUBLAS_", "NCCL_", "NVTE_",
                                                        "PYTORCH_", "TORCH_",  "OMP_",  "MKL_",
                                                        "GLOO_",    "SLURM_",  "WANDB_"};
constexpr std::array<std::string_view, 5> kSecrets = {"KEY", "TOKEN", "SECRET", "PASSWORD", "JWT"};

bool matters(std::string_view name) {
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); }) &&
         std::ranges::none_of(kSecrets,
                              [&](auto secret) { return name.find(secret) != name.npos; });
}

bool is_name_of_shell(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

// Returns "" if the kernel does not tell the name.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

std::string environment_json(const std::map<std::string, std::string>& variables) {
  std::string json = "{";
  for (const auto& [name, value] : variables) {
    if (!matters(name)) continue;
    if (json.size() > 1) json += ',';
    append_json_string(json, name);
    json += ':';
    append_json_string(json, value);
  }
  return json + '}';
}

std::map<std::string, std::string> recorded_variables(const Provenance& provenance) {
  std::map<std::string, std::string> variables;
  try {
    const auto recorded = parse_foreign_json(provenance.environment);
    for (const auto& [name, value] : recorded.items()) {
      if (matters(name) && is_name_of_shell(name) && value.is_string()) {
        variables[name] = value.get<std::string>();
      }
    }
  } catch (const std::exception&) {  // the record is no JSON
  }
  return variables;
}

std::string_view runner_version() { return FSDP_RUN_VERSION; }

Provenance provenance_of_this_process() {
  Provenance provenance;
  provenance.runner_version = runner_version();
  provenance.cpu_name = cpu_name();
  provenance.cpu_cores = sysconf(_SC_NPROCESSORS_ONLN);
  provenance.memory_total_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  provenance.environment = environment_json(own_environment());
  return provenance;
}

}  // namespace fsdp
