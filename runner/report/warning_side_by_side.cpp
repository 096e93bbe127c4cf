#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "runner/report/names.h"
#include "runner/report/warning_checks.h"

namespace fsdp {
namespace {

// Expands "n[1-2,07],m" to n1, n2, n07, m. Lists longer than any cluster's are not expanded fully.
std::set<std::string> names_in(const std::string& node_list) {
  static const std::regex part(R"(([^,\[]+)(?:\[([^\]]*)\]([^,]*))?)");
  static const std::regex numbers(R"((\d{1,9})(?:-(\d{1,9}))?)");
  constexpr size_t kLongestList = 8'192;
  constexpr size_t kMostNodes = 65'536;
  if (node_list.size() > kLongestList) return {node_list};
  const std::sregex_iterator none;
  std::set<std::string> names;
  for (std::sregex_iterator found(node_list.begin(), node_list.end(), part); found != none;
       ++found) {
    const std::string before = (*found)[1], within = (*found)[2], after = (*found)[3];
    if (within.empty()) names.insert(before);
    for (std::sregex_iterator range(within.begin(), within.end(), numbers); range != none;
         ++range) {
      const std::string first = (*range)[1];
      const int64_t last = std::stoll((*range)[2].matched ? (*range)[2].str() : first);
      for (int64_t number = std::stoll(first); number <= last && names.size() < kMostNodes;
           ++number) {
        names.insert(fmt::format("{}{:0{}}{}", before, number, first.size(), after));
      }
    }
  }
  return names;
}

// Returns the positions in `runs` of runs with a known time, by node.
std::map<std::string, std::vector<size_t>> runs_on_nodes(const Runs& runs) {
  std::map<std::string, std::vector<size_t>> on_nodes;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]->started_unix_ms || !runs[i]->total_time_ms) continue;
    std::set<std::string> nodes = names_in(runs[i]->node_list);
    if (!runs[i]->host.empty()) nodes.insert(runs[i]->host);
    for (const std::string& node : nodes) on_nodes[node].push_back(i);
  }
  return on_nodes;
}

}  // namespace

std::string side_by_side(Rows rows) {
  const Runs runs = finished_runs(rows);
  const auto start = [&](size_t i) { return static_cast<double>(*runs[i]->started_unix_ms); };
  std::set<std::pair<size_t, size_t>> pairs;
  for (auto& [node, on_node] : runs_on_nodes(runs)) {
    std::ranges::sort(on_node, {}, start);
    for (auto one = on_node.begin(); one != on_node.end(); ++one) {
      const double end = start(*one) + static_cast<double>(*runs[*one]->total_time_ms);
      for (auto other = one + 1; other != on_node.end() && start(*other) < end; ++other) {
        pairs.insert(std::minmax(*one, *other));
      }
    }
  }
  return joined_names(pairs | std::views::transform([&](const auto& pair) {
                        return runs[pair.first]->point + " and " + runs[pair.second]->point;
                      }));
}

}  // namespace fsdp
