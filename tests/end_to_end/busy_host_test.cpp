#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "runner/store/store.h"
#include "tests/end_to_end/real_runs.h"

using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// Leaves one CPU to this process and to its later children.
class OneCpu {
 public:
  OneCpu() {
    REQUIRE(sched_getaffinity(0, sizeof(all_), &all_) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &all_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  }
  ~OneCpu() { sched_setaffinity(0, sizeof(all_), &all_); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  cpu_set_t all_;
};

}  // namespace

TEST_CASE("a run that shares its only CPU with busy loops is marked, and not compared by speed") {
  const Workplace workplace("  - {name: one}\n", kTinyRun, FSDP_TRAIN_PROGRAM);
  const OneCpu one_cpu;
  std::deque<Program> loops;
  for (int i = 0; i < 4; ++i) {
    loops.emplace_back(workplace / ".",
                       std::vector<std::string>{"/bin/sh", "-c", "while :; do :; done"});
  }
  const Ended ended = workplace.run({"experiment.yaml", "--set", "train.steps=400"});
  INFO(ended.errors);
  REQUIRE(ended.status == 0);
  const ComparisonRow row = Store(workplace.results()).comparison("trial").at(0);
  CHECK(row.cpu_time_others_percent.value() > 25);
  CHECK(row.run_queue_wait_percent.value() > 25);
  CHECK_THAT(ended.output, Contains("not ranked, because other processes took CPU time: one") &&
                               Contains("Warning: other processes took CPU time"));
}

TEST_CASE("a rank reports its use of CPUs once, unless no step comes after the warm-up") {
  const Workplace workplace(
      "  - {name: measured, evaluation: {every_steps: 2, fraction: 0.1}}\n"
      "  - {name: warm-up, train.warmup_steps_excluded: 5}\n",
      kTinyRun, FSDP_TRAIN_PROGRAM);
  const Ended ended = workplace.run();
  INFO(ended.errors);
  REQUIRE(ended.status == 0);
  const auto uses = [&](const std::string& point) {
    const auto events = events_in(events_file(attempt_folder(workplace, point, 1), 0));
    return std::ranges::count_if(
        events, [](const Event& event) { return std::holds_alternative<CpuUse>(event.body); });
  };
  CHECK(uses("measured") == 1);
  CHECK(uses("warm-up") == 0);
}
