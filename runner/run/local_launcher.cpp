#include "runner/run/local_launcher.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <random>
#include <ranges>
#include <stdexcept>
#include <system_error>

#include "base/system/program.h"
#include "base/text/config_error.h"

namespace fsdp {

using std::string_view_literals::operator""sv;

// slurm_templates/job.sh unsets these variables, too.
bool is_of_a_launcher(std::string_view name) {
  static constexpr std::array kNames = {
      "RANK"sv,       "WORLD_SIZE"sv,       "LOCAL_RANK"sv,  "LOCAL_WORLD_SIZE"sv,
      "GROUP_RANK"sv, "GROUP_WORLD_SIZE"sv, "NODE_RANK"sv,   "ROLE_RANK"sv,
      "ROLE_NAME"sv,  "ROLE_WORLD_SIZE"sv,  "MASTER_ADDR"sv, "MASTER_PORT"sv};
  static constexpr std::array kPrefixes = {
      "TORCHELASTIC_"sv, "TORCH_DISTRIBUTED_"sv, "PET_"sv,           "OMPI_COMM_WORLD_"sv, "PMI_"sv,
      "PMIX_"sv,         "MPI_LOCAL"sv,          "MV2_COMM_WORLD_"sv};
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::map<std::string, std::string> rank_variables(const RankPlace& place, size_t rank) {
  const std::string ranks = std::to_string(place.ranks);
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"WORLD_SIZE", ranks},
          {"LOCAL_WORLD_SIZE", ranks},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(place.port)},
          {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},  // CUDA then numbers GPUs as NVML does
          {"CUDA_VISIBLE_DEVICES", place.visible_gpus}};
}

namespace {

bool is_free(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    throw std::system_error(errno, std::generic_category(), "cannot look for a free port");
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool bound =
      bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(descriptor);
  return bound;
}

// Returns a TCP port that nobody listens on now. The port is below those for Linux's outgoing
// connections, which could take it before rank 0 listens.
int free_port() {
  constexpr int kFirstPort = 20000;
  constexpr int kLastPort = 29999;
  constexpr int kTries = 1000;
  std::random_device source;
  std::uniform_int_distribution<int> ports(kFirstPort, kLastPort);
  for (int i = 0; i < kTries; ++i) {
    if (const int port = ports(source); is_free(port)) return port;
  }
  throw std::runtime_error(
      fmt::format("found no free port from {} to {} on this host", kFirstPort, kLastPort));
}

}  // namespace

LocalLauncher::LocalLauncher(LocalSlots slots, Patience patience)
    : slots_(std::move(slots)), patience_(patience) {}

std::vector<Gpu> LocalLauncher::free_gpus() const {
  std::vector<Gpu> free = slots_.gpus;
  for (const Gpu& taken : running_ | std::views::transform(&Running::gpus) | std::views::join) {
    std::erase_if(free, [&](const Gpu& gpu) { return gpu.index == taken.index; });
  }
  return free;
}

bool LocalLauncher::has_room(size_t ranks, bool uses_gpus) const {
  if (running_.empty()) return true;
  if (launches_.are_stopping() || running_.size() >= static_cast<size_t>(slots_.max_parallel))
    return false;
  if (uses_gpus) return ranks <= free_gpus().size();
  size_t busy = 0;
  for (const Running& running : running_) {
    if (!running.request.uses_gpus) busy += running.request.rank_logs.size();
  }
  return busy + ranks <= static_cast<size_t>(slots_.cpu_ranks);
}

SupervisorPlan LocalLauncher::plan(const LaunchRequest& request,
                                   const std::vector<Gpu>& gpus) const {
  const RankPlace place{
      .ranks = request.rank_logs.size(),
      .port = free_port(),
      .visible_gpus = fmt::to_string(fmt::join(gpus | std::views::transform(&Gpu::index), ","))};
  std::map<std::string, std::string> variables = own_environment();
  std::erase_if(variables, [](const auto& variable) { return is_of_a_launcher(variable.first); });
  for (const std::string& assignment : request.environment) {
    const size_t equals = assignment.find('=');
    variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  SupervisorPlan plan{.program = request.trainer,
                      .arguments = request.arguments,
                      .ranks = {},
                      .time_limit = request.time_limit,
                      .time_to_stop = request.time_to_stop,
                      .patience = patience_};
  for (size_t rank = 0; rank < request.rank_logs.size(); ++rank) {
    for (const auto& [name, value] : rank_variables(place, rank)) variables[name] = value;
    RankProcess& process = plan.ranks.emplace_back();
    process.log = request.rank_logs[rank];
    for (const auto& [name, value] : variables) process.environment.push_back(name + '=' + value);
  }
  return plan;
}

void LocalLauncher::start(const LaunchRequest& request) {
  std::vector<Gpu> gpus;
  const size_t ranks = request.rank_logs.size();
  if (request.uses_gpus) {
    if (ranks > slots_.gpus.size()) {
      throw ConfigError("", "strategy.ranks",
                        fmt::format("{0} ranks need {0} GPUs; allowed here: at most {1}", ranks,
                                    slots_.gpus.size()));
    }
    const std::vector<Gpu> free = free_gpus();
    const size_t needed = std::min(ranks, free.size());
    gpus = slots_.share ? free : unheld_gpus(free, needed);
    gpus.resize(needed);
  }
  launches_.start(request, plan(request, gpus));
  running_.push_back({.request = request, .gpus = std::move(gpus)});
}

std::vector<AttemptEnd> LocalLauncher::wait(std::chrono::milliseconds timeout) {
  std::vector<AttemptEnd> ends;
  for (const auto& [request, processes] : launches_.wait(timeout)) {
    std::erase_if(running_,
                  [&](const Running& running) { return running.request.id == request.id; });
    ends.push_back(attempt_end(request, processes));
  }
  return ends;
}

void LocalLauncher::stop_all() { launches_.stop_all(); }

}  // namespace fsdp
