#include "trainer/plan/work_times.h"

#include <catch2/catch.hpp>

namespace fsdp::test::work_times_test {

TEST_CASE("a time lies on the line between the two nearest that were measured") {
  const WorkTimes times({{.work = "block", .rows = 4, .width = 128, .time_ms = 10},
                         {.work = "block", .rows = 1, .width = 128, .time_ms = 4},
                         {.work = "block", .rows = 2, .width = 128, .time_ms = 6}});
  CHECK(times.time_ms({.name = "block", .rows = 2, .width = 128}) == 6);
  CHECK(times.time_ms({.name = "block", .rows = 3, .width = 128}) == 8);
  CHECK(times.time_ms({.name = "block", .rows = 8, .width = 128}) == 18);
}

TEST_CASE("a length that was not measured lies between those that were") {
  const WorkTimes times({{.work = "block", .rows = 1, .width = 64, .time_ms = 2},
                         {.work = "block", .rows = 3, .width = 64, .time_ms = 6},
                         {.work = "block", .rows = 1, .width = 128, .time_ms = 6},
                         {.work = "block", .rows = 3, .width = 128, .time_ms = 14}});
  CHECK(times.time_ms({.name = "block", .rows = 2, .width = 96}) == (4 + 10) / 2.0);
  CHECK(times.time_ms({.name = "block", .rows = 1, .width = 32}) == 1);
  CHECK(times.time_ms({.name = "block", .rows = 1, .width = 256}) == 14);
}

TEST_CASE("what was measured once takes its time in proportion") {
  const WorkTimes times({{.work = "optimizer", .width = 100, .time_ms = 5}});
  CHECK(times.time_ms({.name = "optimizer", .width = 20}) == 1);
  CHECK(times.time_ms({.name = "optimizer", .width = 200}) == 10);
}

TEST_CASE("noise makes no larger piece of work the faster one") {
  const WorkTimes times({{.work = "all_gather", .width = 10, .time_ms = 1},
                         {.work = "all_gather", .width = 20, .time_ms = 4},
                         {.work = "all_gather", .width = 40, .time_ms = 2},
                         {.work = "all_gather", .width = 80, .time_ms = 8}});
  CHECK(times.time_ms({.name = "all_gather", .width = 20}) == 3);
  CHECK(times.time_ms({.name = "all_gather", .width = 40}) == 3);
  CHECK(times.time_ms({.name = "all_gather", .width = 80}) == 8);
}

TEST_CASE("work beyond what was measured takes more time, whatever noise said") {
  const WorkTimes flat({{.work = "block", .rows = 1, .width = 8, .time_ms = 5},
                        {.work = "block", .rows = 2, .width = 8, .time_ms = 3}});
  CHECK(flat.time_ms({.name = "block", .rows = 2, .width = 8}) == 4);
  CHECK(flat.time_ms({.name = "block", .rows = 64, .width = 8}) == 4 * 32);
  const WorkTimes twice({{.work = "block", .rows = 2, .width = 8, .time_ms = 3},
                         {.work = "block", .rows = 2, .width = 8, .time_ms = 5}});
  CHECK(twice.time_ms({.name = "block", .rows = 2, .width = 8}) == 3);
  CHECK(twice.time_ms({.name = "block", .rows = 4, .width = 8}) == 6);
}

TEST_CASE("of other work no time is known") {
  CHECK_FALSE(WorkTimes({{.work = "block", .width = 1, .time_ms = 1}}).time_ms({.name = "head"}));
}

}  // namespace fsdp::test::work_times_test
