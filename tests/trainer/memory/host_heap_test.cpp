#include "trainer/memory/host_heap.h"

#include <catch2/catch.hpp>

namespace fsdp::host_heap_test {

TEST_CASE("the smallest hole that suffices is taken, else addresses behind the last block") {
  HostHeap heap;
  CHECK(heap.take(1000) == 0);
  CHECK(heap.take(64) == 1024);  // blocks begin at multiples of 64
  CHECK(heap.take(500) == 1088);
  CHECK(heap.take(64) == 1600);
  heap.give(0, 1000);
  heap.give(1088, 500);
  CHECK(heap.take(400) == 1088);
  CHECK(heap.take(900) == 0);
  CHECK(heap.take(65) == 1664);  // one byte more than the hole behind the block of 400
  CHECK(heap.bytes_max() == 1792);
}

TEST_CASE("holes that touch become one, whichever block is freed last") {
  for (const int last : {0, 1, 2}) {
    HostHeap heap;
    for (int i = 0; i < 4; ++i) heap.take(128);
    for (const int block : {0, 1, 2}) {
      if (block != last) heap.give(128 * block, 128);
    }
    heap.give(128 * last, 128);
    CHECK(heap.take(3 * 128) == 0);
    CHECK(heap.bytes_max() == 4 * 128);
  }
}

TEST_CASE("what is freed at the end is taken again, and was resident") {
  HostHeap heap;
  heap.take(128);
  heap.take(1280);
  heap.give(128, 1280);
  CHECK(heap.take(640) == 128);
  CHECK(heap.bytes_max() == 128 + 1280);
}

}  // namespace fsdp::host_heap_test
