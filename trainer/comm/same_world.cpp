// Compares the ranks' worlds in the store, before transports connect and wait for each other.
#include "trainer/comm/same_world.h"

#include <map>
#include <sstream>
#include <thread>

#include "base/text/config_error.h"

namespace fsdp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kArrivals = "world/arrivals";
constexpr const char* kVerdict = "world/verdict";
constexpr const char* kHeard = "world/heard";

// Each process writes this to the store when it starts. Rank 0 compares them.
struct Arrival {
  int rank = 0;
  int world_size = 1;
  std::string device;
  bool is_on_single_host = true;
};
// The error that rank 0 finds in all statements.
struct Verdict {
  std::string key;  // empty: nothing is wrong
  std::string problem;
};

std::string arrival_key(int64_t place) { return "world/arrival/" + std::to_string(place); }

std::string text_at(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

Arrival read_arrival(c10d::Store& store, int64_t place) {
  Arrival arrival;
  std::istringstream(text_at(store, arrival_key(place))) >> arrival.rank >> arrival.world_size >>
      arrival.device >> arrival.is_on_single_host;
  return arrival;
}

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

Verdict compare(const Arrival& own, const Arrival& other) {
  if (other.world_size != own.world_size) {
    return {"WORLD_SIZE",
            rank_text(other.rank) + " was started as one of " + std::to_string(other.world_size) +
                " ranks, " + rank_text(own.rank) + " as one of " + std::to_string(own.world_size) +
                "; start all ranks of a run with the same WORLD_SIZE (or the launcher's variable "
                "for it), and each run at a MASTER_PORT of its own"};
  }
  if (other.device != own.device) {
    return {"device", rank_text(other.rank) + " runs on " + other.device + ", " +
                          rank_text(own.rank) + " on " + own.device +
                          "; give every rank a GPU, or set device: cpu"};
  }
  if (other.is_on_single_host != own.is_on_single_host) {
    const auto hosts = [](const Arrival& of) {
      return of.is_on_single_host ? "all ranks on its host" : "ranks on other hosts, too";
    };
    return {"LOCAL_WORLD_SIZE", rank_text(other.rank) + " was started with " + hosts(other) + ", " +
                                    rank_text(own.rank) + " with " + hosts(own) +
                                    "; give each process the number of ranks on its host (in "
                                    "LOCAL_WORLD_SIZE or the launcher's variable for it)"};
  }
  return {};
}

// Describes a process that comes after all ranks have come.
Verdict one_too_many(const Arrival& own) {
  return {"RANK", "more than " + std::to_string(own.world_size) + " processes came, so " +
                      rank_text(own.rank) +
                      " or another one was started twice; give each process its own RANK (or the "
                      "launcher's variable for it), and each run a MASTER_PORT of its own"};
}

std::string missing_ranks(const std::map<int, int64_t>& arrived, int world_size) {
  constexpr int kMostNamed = 8;
  std::string text;
  int named = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    if (arrived.contains(rank)) continue;
    if (++named > kMostNamed) return text + ", ...";
    text += (named == 1 ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

// Rank 0 reads the statements of the others as they come.
Verdict judge(const Arrival& own, c10d::Store& store, steady_clock::time_point deadline) {
  std::map<int, int64_t> arrived;
  for (int64_t place = 1; place <= own.world_size; ++place) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    try {
      store.wait({arrival_key(place)}, std::max(left, milliseconds(1)));
    } catch (const std::exception&) {
      throw std::runtime_error("these ranks never connected: " +
                               missing_ranks(arrived, own.world_size));
    }
    const Arrival other = read_arrival(store, place);
    if (Verdict found = compare(own, other); !found.key.empty()) return found;
    if (!arrived.emplace(other.rank, place).second) {
      return {"RANK", "two processes were started as " + rank_text(other.rank) + " of " +
                          std::to_string(own.world_size) +
                          "; give each process its own RANK (or the launcher's variable for it), "
                          "and each run a MASTER_PORT of its own"};
    }
  }
  return {};
}

// Rank 0 hosts the store, so it waits until every process that has arrived has read the verdict.
void wait_for_hearers(c10d::Store& store, steady_clock::time_point deadline) {
  while (store.add(kHeard, 0) < store.add(kArrivals, 0) && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
}

}  // namespace

void require_same_world(const WorldEnvironment& world, at::Device device, c10d::Store& store,
                        milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  const Arrival own{world.rank, world.world_size, device.is_cuda() ? "cuda" : "cpu",
                    world.single_host()};
  const int64_t place = store.add(kArrivals, 1);
  store.set(arrival_key(place), std::to_string(own.rank) + ' ' + std::to_string(own.world_size) +
                                    ' ' + own.device + ' ' + std::to_string(own.is_on_single_host));
  Verdict verdict;
  if (world.rank == 0) {
    verdict = judge(own, store, deadline);
    store.set(kVerdict, verdict.key + '\n' + verdict.problem);
  } else {
    const std::string text = text_at(store, kVerdict);
    const size_t end = text.find('\n');
    verdict = {text.substr(0, end), text.substr(end + 1)};
  }
  if (verdict.key.empty() && place > own.world_size) verdict = one_too_many(own);
  if (verdict.key.empty()) return;
  store.add(kHeard, 1);
  if (world.rank == 0) wait_for_hearers(store, deadline);
  throw ConfigError(verdict.key == "device" ? "" : "environment", verdict.key, verdict.problem);
}

}  // namespace fsdp
