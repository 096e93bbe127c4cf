#include "trainer/train/step_accounts.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "trainer/comm/mirror_group.h"

namespace fsdp::test::step_accounts_test {

constexpr double kWorkMs = 4;

// Keeps this thread busy for kWorkMs of the clock that marks use.
void work() {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds(4'000)) continue;
}

void work_on(TimePart part) {
  const WorkScope scope(part);
  work();
}

// Two ranks. The other one waits `shares_of_other[i]` of this rank's time for collective i.
class TwoRanks : public MirrorGroup {
 public:
  explicit TwoRanks(std::vector<double> shares_of_other)
      : MirrorGroup(2), shares_(std::move(shares_of_other)) {}

  Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
    MirrorGroup::all_gather(output, shard, unit);
    REQUIRE(shard.numel() == std::ssize(shares_));
    for (int64_t i = 0; i < shard.numel(); ++i) {
      output[shard.numel() + i] = shard[i] * shares_[static_cast<size_t>(i)];
    }
    return {};
  }

 private:
  std::vector<double> shares_;
};

CommunicationClock::Operations operation_of(std::chrono::milliseconds time) {
  CommunicationClock clock;
  clock.start();
  const auto now = std::chrono::steady_clock::now();
  clock.add({"all_gather", 7, 4096}, now, now + time);
  return clock.stop();
}

// Accounts for one step.
template <typename Step>
StepAccount account_of(ProcessGroup& world, Step step,
                       std::chrono::milliseconds communication_time = {}) {
  StepAccounts accounts(at::kCPU, world, /*after=*/2, /*count=*/1, /*traced=*/0, nullptr);
  CHECK_FALSE(accounts.wants(2));
  CHECK(accounts.wants(3));
  CHECK_FALSE(accounts.wants(4));
  const StepClock clock(at::kCPU);
  const auto begin = clock.mark();
  accounts.begin_step(3);
  step();
  const auto end = clock.mark();
  const StepAccounts::Step boundaries = accounts.end_step();
  work_on(TimePart::kData);  // after the step, so it does not count
  accounts.add(3, boundaries, *begin, *end, operation_of(communication_time));
  CHECK(accounts.is_complete());
  const std::vector<StepAccount> taken = accounts.take();
  REQUIRE(taken.size() == 1);
  CHECK(taken.front().step == 3);
  double sum_ms = 0;
  for (const double time_ms : taken.front().parts.milliseconds) sum_ms += time_ms;
  CHECK(sum_ms == Approx(taken.front().step_time_ms).epsilon(1e-9));
  CHECK(accounts.take().empty());
  CHECK(accounts.trace().steps.empty());
  return taken.front();
}

TEST_CASE("every moment of a step belongs to the innermost work") {
  MirrorGroup alone(1);
  const StepAccount account = account_of(alone, [] {
    work();
    {
      const WorkScope module(
          [] { return Work{.name = "block", .part = TimePart::kKernelsForward}; });
      work();
      work_on(TimePart::kProductsForward);
      work_on(TimePart::kProductsForward);
      work();
    }
    const MemoryScope backward(MemoryPhase::kBackward);
    work_on(TimePart::kProductsForward);
    work_on(TimePart::kOptimizer);
  });
  const TimeByPart& parts = account.parts;
  CHECK(parts[TimePart::kOther] >= kWorkMs);
  CHECK(parts[TimePart::kKernelsForward] >= 2 * kWorkMs);
  CHECK(parts[TimePart::kProductsForward] >= 2 * kWorkMs);
  CHECK(parts[TimePart::kProductsBackward] >= kWorkMs);
  CHECK(parts[TimePart::kOptimizer] >= kWorkMs);
  CHECK(parts[TimePart::kKernelsBackward] == 0);
  CHECK(parts[TimePart::kData] == 0);
}

TEST_CASE("work of other threads is beside the step") {
  MirrorGroup alone(1);
  const StepAccount account = account_of(alone, [] {
    const WorkScope wait(TimePart::kCopies);
    std::thread([] { work_on(TimePart::kOptimizer); }).join();
  });
  CHECK(account.parts[TimePart::kOptimizer] == 0);
  CHECK(account.parts[TimePart::kCopies] >= kWorkMs);
}

TEST_CASE("the rank that waits least for a collective came last") {
  // The other rank waited a quarter as long for the first collective, and longer for the second.
  TwoRanks world({0.25, 3});
  const StepAccount account = account_of(
      world,
      [] {
        work_on(TimePart::kAllGatherForward);
        work_on(TimePart::kOptimizer);
        work_on(TimePart::kReduceScatter);
      },
      /*communication_time=*/std::chrono::seconds(1));
  const TimeByPart& parts = account.parts;
  CHECK(parts[TimePart::kSlowerRanks] == Approx(3 * parts[TimePart::kAllGatherForward]));
  CHECK(parts[TimePart::kSlowerRanks] >= 0.75 * kWorkMs);
  CHECK(parts[TimePart::kReduceScatter] >= kWorkMs);
  const double waited_ms = parts[TimePart::kSlowerRanks] + parts[TimePart::kAllGatherForward] +
                           parts[TimePart::kReduceScatter];
  CHECK(account.hidden_communication_ms == Approx(1'000 - waited_ms));
}

TEST_CASE("a trace has the parts of a step, its named pieces and its collectives") {
  MirrorGroup alone(1);
  StepAccounts accounts(at::kCPU, alone, /*after=*/0, /*count=*/2, /*traced=*/1, nullptr);
  const StepClock clock(at::kCPU);
  for (const int step : {1, 2}) {
    const auto begin = clock.mark();
    accounts.begin_step(step);
    {
      const MemoryScope unit(5, MemoryUse::kOther);
      const WorkScope module(
          [] { return Work{.name = "block", .part = TimePart::kKernelsForward}; });
      work();
      work_on(TimePart::kProductsForward);
    }
    work_on(TimePart::kOptimizer);
    const auto end = clock.mark();
    const StepAccounts::Step boundaries = accounts.end_step();
    accounts.add(step, boundaries, *begin, *end, operation_of(std::chrono::milliseconds(5)));
  }
  const StepAccount account = accounts.take().front();
  const RankTrace traced = accounts.trace();
  REQUIRE(traced.steps.size() == 1);
  const StepTrace& trace = traced.steps.front();
  CHECK(trace.step == 1);
  TimeByPart parts;
  int64_t end_ns = 0;
  std::vector<std::string> others;
  for (const TraceSpan& span : trace.spans) {
    if (span.kind != SpanKind::kPart) {
      others.push_back(std::string(name_of(span.kind)) + ' ' + span.name + " of unit " +
                       std::to_string(span.unit.value()) + ", " + std::to_string(span.bytes) +
                       " bytes");
      CHECK(span.time_ns >= static_cast<int64_t>(kWorkMs * 1e6));
      continue;
    }
    CHECK(span.begin_ns == end_ns);
    end_ns = span.begin_ns + span.time_ns;
    parts[*enum_from_name<TimePart>(span.name)] += static_cast<double>(span.time_ns) / 1e6;
  }
  CHECK(others == std::vector<std::string>{"work block of unit 5, 0 bytes",
                                           "collective all_gather of unit 7, 4096 bytes"});
  CHECK(static_cast<double>(end_ns) / 1e6 == Approx(account.step_time_ms).margin(1e-5));
  for (size_t i = 0; i < kTimeParts; ++i) {
    CHECK(parts.milliseconds[i] == Approx(account.parts.milliseconds[i]).margin(1e-4));
  }
}

TEST_CASE("work that began before the step was observed, or ends after it, does no harm") {
  MirrorGroup alone(1);
  StepAccounts accounts(at::kCPU, alone, 0, 2, 2, nullptr);
  auto before = std::make_unique<WorkScope>(TimePart::kOptimizer);
  accounts.begin_step(1);
  before.reset();
  auto after = std::make_unique<WorkScope>(TimePart::kOptimizer);
  (void)accounts.end_step();
  after.reset();
  accounts.begin_step(2);
  work_on(TimePart::kData);
  (void)accounts.end_step();
}

}  // namespace fsdp::test::step_accounts_test
