// Binds a rank to the CPUs next to its GPU. A binding by a launcher stays.
#include "trainer/train/cpu_binding.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

namespace fsdp {
namespace {

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number >= kMostCpus) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char character) {
  if (!text.starts_with(character)) return false;
  text.remove_prefix(1);
  return true;
}

// New threads inherit the binding of the thread that starts them.
bool bind_all_threads(const Cpus& cpus) {
  std::array<cpu_set_t, kMostCpus / CPU_SETSIZE> mask{};
  for (const int cpu : cpus) CPU_SET_S(cpu, sizeof(mask), mask.data());
  if (sched_setaffinity(0, sizeof(mask), mask.data()) != 0) return false;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    sched_setaffinity(std::stoi(thread.path().filename()), sizeof(mask), mask.data());
  }
  return true;
}

}  // namespace

std::optional<Cpus> parse_cpu_list(std::string_view text) {
  Cpus cpus;
  while (!text.empty()) {
    const std::optional<int> first = take_number(text);
    if (!first) return std::nullopt;
    const std::optional<int> last = take(text, '-') ? take_number(text) : first;
    if (!last || *last < *first) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
    if (!text.empty() && (!take(text, ',') || text.empty())) return std::nullopt;
  }
  return cpus;
}

std::string cpu_list_text(const Cpus& cpus) {
  std::string text;
  for (auto cpu = cpus.begin(); cpu != cpus.end();) {
    const int first = *cpu;
    int last = first;
    for (++cpu; cpu != cpus.end() && *cpu == last + 1; ++cpu) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text += '-' + std::to_string(last);
  }
  return text;
}

std::optional<Cpus> cpus_to_bind_to(const Cpus& allowed, const std::vector<Cpus>& local,
                                    int local_rank) {
  const Cpus& own = local[static_cast<size_t>(local_rank)];
  Cpus both;
  for (const int cpu : own) {
    if (allowed.contains(cpu)) both.insert(cpu);
  }
  const auto sharers = static_cast<size_t>(std::count(local.begin(), local.end(), own));
  const bool is_even_share = both.size() * local.size() >= sharers * allowed.size();
  if (both.empty() || both.size() == allowed.size() || !is_even_share) return std::nullopt;
  return both;
}

Cpus cpus_local_to(const std::string& pci_id, const std::filesystem::path& sysfs) {
  std::ifstream file(sysfs / "bus/pci/devices" / pci_id / "local_cpulist");
  std::string list;
  std::getline(file, list);
  return parse_cpu_list(list).value_or(Cpus());
}

std::string bind_to_local_cpus(const std::vector<std::string>& pci_ids, int local_rank,
                               const std::filesystem::path& sysfs) {
  std::vector<Cpus> local;
  for (const std::string& pci_id : pci_ids) local.push_back(cpus_local_to(pci_id, sysfs));
  const auto cpus = cpus_to_bind_to(allowed_cpus(), local, local_rank);
  return cpus && bind_all_threads(*cpus) ? cpu_list_text(*cpus) : "";
}

}  // namespace fsdp
