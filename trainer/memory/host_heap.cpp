// Places blocks in a range of addresses. Holes that touch are always one hole.
#include "trainer/memory/host_heap.h"

#include <algorithm>
#include <iterator>

namespace fsdp {
namespace {

int64_t aligned(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int64_t HostHeap::take(int64_t bytes) {
  const int64_t needed_bytes = aligned(bytes);
  const auto smallest = holes_by_size_.lower_bound({needed_bytes, 0});
  if (smallest == holes_by_size_.end()) {
    const int64_t address = end_;
    end_ += needed_bytes;
    end_max_ = std::max(end_max_, end_);
    return address;
  }
  const auto [hole_bytes, address] = *smallest;
  remove_hole(holes_.find(address));
  if (hole_bytes > needed_bytes) give_hole(address + needed_bytes, hole_bytes - needed_bytes);
  return address;
}

void HostHeap::give(int64_t address, int64_t bytes) { give_hole(address, aligned(bytes)); }

// Joins the hole with its neighbours. At the end of all blocks, it shortens the heap instead.
void HostHeap::give_hole(int64_t address, int64_t bytes) {
  const auto next = holes_.find(address + bytes);
  if (next != holes_.end()) {
    bytes += next->second;
    remove_hole(next);
  }
  const auto above = holes_.lower_bound(address);
  if (above != holes_.begin()) {
    const auto previous = std::prev(above);
    if (previous->first + previous->second == address) {
      address = previous->first;
      bytes += previous->second;
      remove_hole(previous);
    }
  }
  if (address + bytes == end_) {
    end_ = address;
    return;
  }
  holes_[address] = bytes;
  holes_by_size_.emplace(bytes, address);
}

void HostHeap::remove_hole(std::map<int64_t, int64_t>::iterator hole) {
  holes_by_size_.erase({hole->second, hole->first});
  holes_.erase(hole);
}

}  // namespace fsdp
