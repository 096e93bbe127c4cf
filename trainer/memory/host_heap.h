#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace fsdp {

// Chooses the addresses of blocks in one range. A block takes the smallest hole that suffices, else
// the space behind the last block. CountingAllocator places tensors this way, so a plan of the same
// tensors finds the same addresses. Written memory stays resident, even after its block is freed.
// In glibc's heap, small blocks of libraries took parts of freed tensors. Each of two ranks of 400
// MB grew by up to 100 MB, at random.
class HostHeap {
 public:
  // True if a block of this size belongs here. Smaller blocks are left to glibc's heap. Larger
  // blocks are mapped, so the kernel gets them back when they are freed.
  static bool holds(int64_t bytes) { return bytes >= kSmallestBytes && bytes < kMappedFromBytes; }
  static constexpr int64_t kSmallestBytes = 64 << 10;
  static constexpr int kMappedFromBytes = 32 << 20;
  // The size of CountingAllocator's header before the data of every CPU tensor.
  static constexpr int64_t kHeaderBytes = 64;

  // Returns the block's address, a multiple of 64, from 0.
  int64_t take(int64_t bytes);
  // Frees a block that take(bytes) has returned.
  void give(int64_t address, int64_t bytes);

  // The most bytes between 0 and the end of the last block.
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
