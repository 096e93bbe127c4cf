// Holds what the ranks of a group share: the store, the watchdog and their names in messages.
#include "trainer/comm/membership.h"

#include <algorithm>
#include <regex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "trainer/comm/process_group.h"

namespace fsdp {
namespace {

constexpr size_t kRanksNamed = 8;

std::string operation_text(const std::string& operation, int unit) {
  return unit == kNoUnit ? operation : operation + " of unit " + std::to_string(unit);
}

}  // namespace

std::string Membership::agree(const std::string& key, const std::string& value) {
  const std::string operation = "agree on " + key;
  const std::string store_key = "agree/" + std::to_string(agreements++) + "/" + key;
  try {
    const Watchdog::Watched watched = watch(operation, kNoUnit);
    if (rank == 0) {
      store->set(store_key, std::vector<uint8_t>(value.begin(), value.end()));
      return value;
    }
    const std::vector<uint8_t> bytes = store->get(store_key);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception& error) {
    throw CommunicationError(describe_failure(operation, kNoUnit, error));
  }
}

void Membership::leave(const std::string& key, const std::string& value) {
  try {
    const Watchdog::Watched watched = watch("leave " + key, kNoUnit);
    store->set("left/" + key, std::vector<uint8_t>(value.begin(), value.end()));
  } catch (const std::exception& error) {
    throw CommunicationError(describe_failure("leave " + key, kNoUnit, error));
  }
}

bool Membership::is_left(const std::string& key) {
  try {
    const Watchdog::Watched watched = watch("look for " + key, kNoUnit);
    return store->check({"left/" + key});
  } catch (const std::exception& error) {
    throw CommunicationError(describe_failure("look for " + key, kNoUnit, error));
  }
}

std::string Membership::take(const std::string& key) {
  try {
    const Watchdog::Watched watched = watch("take " + key, kNoUnit);
    const std::vector<uint8_t> bytes = store->get("left/" + key);
    store->deleteKey("left/" + key);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception& error) {
    throw CommunicationError(describe_failure("take " + key, kNoUnit, error));
  }
}

Membership Membership::subgroup(const std::string& group_name,
                                const std::vector<int>& group_ranks) {
  const auto own = std::find(group_ranks.begin(), group_ranks.end(), rank);
  TORCH_CHECK(own != group_ranks.end(), "rank ", rank, " makes a group '", group_name,
              "' that it is not in");
  Membership group = *this;
  group.rank = static_cast<int>(own - group_ranks.begin());
  group.ranks.clear();
  for (const int member : group_ranks) group.ranks.push_back(ranks.at(member));
  group.name = group_name;
  // Subgroups under one name have no rank in common, so the first rank distinguishes them.
  group.store = c10::make_intrusive<c10d::PrefixStore>("subgroup/" + std::to_string(subgroups++) +
                                                           "/" + group_name + "/" +
                                                           std::to_string(group.ranks.front()),
                                                       store);
  group.agreements = 0;
  group.subgroups = 0;
  return group;
}

Watchdog::Watched Membership::watch(const std::string& operation, int unit) const {
  return watchdog->watch(describe(operation, unit));
}

std::string Membership::describe(const std::string& operation, int unit) const {
  return operation_text(operation, unit) + place();
}

std::string Membership::describe_failure(const std::string& operation, int unit,
                                         const std::exception& cause) const {
  return operation_text(operation, unit) + " failed" + place() + ": " + cause_text(cause) +
         "; another rank has probably stopped first: see its log";
}

std::string Membership::place() const {
  std::string text =
      " on rank " + std::to_string(ranks.at(rank)) + " of " + std::to_string(world_size);
  if (name.empty()) return text;
  text += " in " + name + " of ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kRanksNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return ranks.size() > kRanksNamed ? text + ", ..." : text;
}

std::string cause_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  // NCCL's last lines may add facts, such as that memory ran out.
  if (dynamic_cast<const c10::DistBackendError*>(&error) == nullptr) {
    return text.substr(0, text.find('\n'));
  }
  return std::regex_replace(text, std::regex("\\s*\n\\s*"), "; ");
}

}  // namespace fsdp
