#include "tests/fakes/cuda/order.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/fakes/cuda/state.h"

namespace fsdp::fake_cuda {
namespace {

struct Use {
  int stream;
  uint64_t time;
  std::string operation;
};

// A range of memory whose bytes all had the same last uses.
struct Segment {
  uintptr_t end = 0;
  std::vector<Use> writes;  // none or one
  std::vector<Use> reads;   // since that write, the last of each stream
};

std::mutex mutex;
std::map<uintptr_t, Segment> segments;  // by first address

std::mutex found_mutex;  // its holder takes no other mutex
std::set<std::string> found;
bool is_fatal = true;

bool has_waited(const Clock& clock, const Use& use) {
  const auto stream = static_cast<size_t>(use.stream);
  return stream < clock.size() && clock[stream] >= use.time;
}

// Splits the segment around `address`, if any, so that a segment begins there.
void split(uintptr_t address) {
  auto after = segments.upper_bound(address);
  if (after == segments.begin()) return;
  const auto holder = std::prev(after);
  if (holder->first == address || holder->second.end <= address) return;
  Segment rest = holder->second;
  holder->second.end = address;
  segments.emplace(address, std::move(rest));
}

// Calls visit(segment) for each segment of [begin, end).
template <typename Visit>
void for_each_segment(uintptr_t begin, uintptr_t end, Visit&& visit) {
  split(begin);
  split(end);
  while (begin < end) {
    const auto next = segments.lower_bound(begin);
    const uintptr_t next_begin = next == segments.end() ? end : std::min(next->first, end);
    if (next_begin > begin) segments[begin].end = next_begin;
    Segment& segment = segments[begin];
    visit(segment);
    begin = segment.end;
  }
}

void check_waited(const Clock& clock, const std::string& who, const std::vector<Use>& uses) {
  for (const Use& use : uses) {
    if (has_waited(clock, use)) continue;
    add_hazard(who + " has not waited for " + use.operation + " on stream " +
               std::to_string(use.stream));
  }
}

}  // namespace

void merge(Clock& clock, const Clock& other) {
  clock.resize(std::max(clock.size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

Clock& host_clock() {
  thread_local Clock clock;
  return clock;
}

std::vector<std::string>& operations() {
  thread_local std::vector<std::string> names;
  return names;
}

void issue(cudaStream_t stream, const std::string& operation, const std::vector<Access>& accesses) {
  const std::lock_guard lock(mutex);
  const auto [number, clock] = tick(stream);
  const std::string who = operation + " on stream " + std::to_string(number);
  for (const Access& access : accesses) {
    const auto begin = reinterpret_cast<uintptr_t>(access.begin);
    for_each_segment(begin, begin + access.bytes, [&](Segment& segment) {
      const Use use{number, clock[static_cast<size_t>(number)], operation};
      check_waited(clock, who, segment.writes);
      if (access.is_write) {
        check_waited(clock, who, segment.reads);
        segment.reads.clear();
        segment.writes = {use};
      } else {
        std::erase_if(segment.reads, [&](const Use& read) { return read.stream == number; });
        segment.reads.push_back(use);
      }
    });
  }
}

void run_on_host(const std::string& operation, const std::vector<Access>& accesses) {
  const std::lock_guard lock(mutex);
  const std::string who = operation + " on the host";
  for (const Access& access : accesses) {
    const auto begin = reinterpret_cast<uintptr_t>(access.begin);
    for_each_segment(begin, begin + access.bytes, [&](Segment& segment) {
      check_waited(host_clock(), who, segment.writes);
      if (access.is_write) check_waited(host_clock(), who, segment.reads);
    });
  }
}

void let_go(const void* begin, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto first = reinterpret_cast<uintptr_t>(begin);
  const std::string who = "the host, which lets memory go,";
  for_each_segment(first, first + bytes, [&](Segment& segment) {
    check_waited(host_clock(), who, segment.writes);
    check_waited(host_clock(), who, segment.reads);
  });
  for_each_segment(first, first + bytes, [](Segment&) {});
  segments.erase(segments.lower_bound(first), segments.lower_bound(first + bytes));
}

void add_hazard(const std::string& text) {
  const std::lock_guard lock(found_mutex);
  if (!found.insert(text).second || !is_fatal) return;
  std::fprintf(stderr, "fake CUDA: %s\n", text.c_str());
  std::_Exit(71);
}

std::vector<std::string> hazards() {
  const std::lock_guard lock(found_mutex);
  return {found.begin(), found.end()};
}

void forget_hazards() {
  const std::lock_guard lock(found_mutex);
  found.clear();
}

void collect_hazards() { is_fatal = false; }

}  // namespace fsdp::fake_cuda
