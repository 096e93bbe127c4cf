#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace fsdp {

// Which addresses blocks have in one stretch that only grows: the smallest hole that suffices, else
// behind the last block. CountingAllocator places tensors so, and a plan of the same tensors finds
// the same addresses. What a block has written stays resident, so holes are resident too.
class HostHeap {
 public:
  // True for blocks that are neither so small that they are better kept elsewhere, nor so large
  // that they are better given back to the kernel.
  static bool holds(int64_t bytes) { return bytes >= kSmallestBytes && bytes < kMappedFromBytes; }
  static constexpr int64_t kSmallestBytes = 64 << 10;
  static constexpr int kMappedFromBytes = 32 << 20;
  // Of every tensor on the CPU: what CountingAllocator keeps before its data.
  static constexpr int64_t kHeaderBytes = 64;

  // Returns the block's address, a multiple of 64, from 0.
  int64_t take(int64_t bytes);
  // Of a block that take(bytes) has returned.
  void give(int64_t address, int64_t bytes);

  // The most that was between 0 and the end of the last block.
  int64_t bytes_max() const { return end_max_; }

 private:
  void give_hole(int64_t address, int64_t bytes);
  void remove_hole(std::map<int64_t, int64_t>::iterator hole);

  std::map<int64_t, int64_t> holes_;                     // address to bytes
  std::set<std::pair<int64_t, int64_t>> holes_by_size_;  // bytes and address
  int64_t end_ = 0;
  int64_t end_max_ = 0;
};

}  // namespace fsdp
