#include "trainer/plan/planned_time.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

namespace fsdp::test::planned_time_test {

// Every element or byte takes a millisecond.
WorkTimes unit_times() {
  return WorkTimes({{.work = "block", .width = 1, .time_ms = 1},
                    {.work = "optimizer", .width = 1, .time_ms = 1},
                    {.work = "all_gather of 2 ranks", .width = 1, .time_ms = 1}});
}

// Work on the streams of a planned device.
struct Planned {
  explicit Planned(c10::DeviceType device)
      : time(unit_times(), device),
        streams(planned_streams(time)),
        group(planned_group(2, time)),
        observed(time) {}

  void run(StreamId stream, const char* name, int64_t width) {
    streams->run(stream, {}, [&] { const WorkScope work([&] { return Work{name, 1, width}; }); });
  }
  // Gathers for `time_ms`.
  void gather(int64_t time_ms) {
    const auto options = at::TensorOptions(at::kByte).device(at::kMeta);
    streams->run(StreamId::kGather, {}, [&] {
      group->all_gather(at::empty({time_ms}, options), at::empty({time_ms / 2}, options)).wait();
    });
  }

  PlannedTime time;
  std::unique_ptr<Streams> streams;
  std::unique_ptr<ProcessGroup> group;
  ObservedWork observed;
};

TEST_CASE("streams of a GPU work side by side until one waits for the other") {
  Planned gpu(at::kCUDA);
  gpu.gather(10);
  gpu.run(StreamId::kCompute, "block", 4);
  CHECK(gpu.time.end_ms() == 10);
  const EventPtr gathered = gpu.streams->record(StreamId::kGather);
  gpu.streams->block(StreamId::kCompute, gathered);
  CHECK(gpu.time.waited_ms() == 6);
  gpu.run(StreamId::kCompute, "block", 5);
  CHECK(gpu.time.end_ms() == 15);
}

TEST_CASE("what the host issues after it has waited begins no earlier") {
  Planned gpu(at::kCUDA);
  gpu.run(StreamId::kCopy, "block", 7);
  gpu.streams->block(StreamId::kHost, gpu.streams->record(StreamId::kCopy));
  gpu.run(StreamId::kCompute, "block", 1);
  CHECK(gpu.time.time_ms(StreamId::kCompute) == 8);
}

TEST_CASE("collectives of one group follow each other, whatever stream they are on") {
  Planned gpu(at::kCUDA);
  gpu.gather(10);
  const auto options = at::TensorOptions(at::kByte).device(at::kMeta);
  gpu.streams->run(StreamId::kReduce, {}, [&] {
    gpu.group->all_gather(at::empty({4}, options), at::empty({2}, options)).wait();
  });
  CHECK(gpu.time.time_ms(StreamId::kReduce) == 14);
}

TEST_CASE("on a CPU all work takes its turn") {
  Planned cpu(at::kCPU);
  cpu.run(StreamId::kCompute, "block", 3);
  cpu.gather(10);
  CHECK(cpu.time.waited_ms() == 10);
  cpu.run(StreamId::kCopy, "block", 2);
  CHECK(cpu.time.end_ms() == 15);
  cpu.run(StreamId::kOptimizer, "optimizer", 8);
  cpu.run(StreamId::kCompute, "block", 1);
  CHECK(cpu.time.end_ms() == 24);
}

double sum_ms(const TimeByPart& parts) {
  double sum = 0;
  for (const double time_ms : parts.milliseconds) sum += time_ms;
  return sum;
}

TEST_CASE("a GPU's time is that of its compute stream, part by part") {
  Planned gpu(at::kCUDA);
  const auto run = [&](StreamId stream, const char* name, int64_t width, TimePart part) {
    gpu.streams->run(stream, {}, [&] {
      const WorkScope work([&] { return Work{name, 1, width, part}; });
    });
  };
  run(StreamId::kCompute, "block", 7, TimePart::kKernelsForward);  // before the traced step
  for (const StreamId stream : {StreamId::kGather, StreamId::kCopy}) {
    gpu.streams->block(stream, gpu.streams->record(StreamId::kCompute));
  }
  const TimeByPart before = gpu.time.parts();
  gpu.time.begin_trace();
  gpu.gather(10);
  const EventPtr gathered = gpu.streams->record(StreamId::kGather);
  run(StreamId::kCompute, "block", 4, TimePart::kKernelsForward);  // hides 4 of the 10 ms
  {
    const WorkScope wait(TimePart::kAllGatherForward);
    gpu.streams->block(StreamId::kCompute, gathered);
  }
  const MemoryScope backward(MemoryPhase::kBackward);
  run(StreamId::kCompute, "block", 5, TimePart::kKernelsForward);
  run(StreamId::kCopy, "block", 20, TimePart::kCopies);  // beside
  {
    const WorkScope wait(TimePart::kOptimizer);
    gpu.streams->block(StreamId::kHost, gpu.streams->record(StreamId::kCopy));
  }
  run(StreamId::kCompute, "block", 1, TimePart::kKernelsForward);  // not before 20 ms
  TimeByPart parts = gpu.time.parts();
  CHECK(sum_ms(parts) == gpu.time.end_ms());
  for (size_t i = 0; i < kTimeParts; ++i) parts.milliseconds[i] -= before.milliseconds[i];
  CHECK(parts[TimePart::kKernelsForward] == 4);
  CHECK(parts[TimePart::kAllGatherForward] == 6);
  CHECK(parts[TimePart::kKernelsBackward] == 6);
  CHECK(parts[TimePart::kOptimizer] == 5);

  std::vector<std::string> spans;
  for (const TraceSpan& span : gpu.time.trace()) {
    spans.push_back(std::string(name_of(span.kind)) + ' ' + span.name + " from " +
                    std::to_string(span.begin_ns / 1'000'000) + " for " +
                    std::to_string(span.time_ns / 1'000'000) + " ms");
  }
  CHECK(spans == std::vector<std::string>{
                     "collective all_gather from 0 for 10 ms",
                     "part kernels_forward from 0 for 4 ms",
                     "work block from 0 for 4 ms",
                     "part exposed_all_gather_forward from 4 for 6 ms",
                     "part kernels_backward from 10 for 5 ms",
                     "work block from 10 for 5 ms",
                     "beside block from 0 for 20 ms",
                     "part optimizer from 15 for 5 ms",
                     "part kernels_backward from 20 for 1 ms",
                     "work block from 20 for 1 ms",
                 });
}

TEST_CASE("on a CPU collectives are parts of the calling thread's time") {
  Planned cpu(at::kCPU);
  cpu.run(StreamId::kCompute, "block", 3);
  cpu.gather(10);
  const MemoryScope backward(MemoryPhase::kBackward);
  cpu.gather(4);
  CHECK(cpu.time.parts()[TimePart::kAllGatherForward] == 10);
  CHECK(cpu.time.parts()[TimePart::kAllGatherBackward] == 4);
  CHECK(cpu.time.parts()[TimePart::kOther] == 3);
  CHECK(sum_ms(cpu.time.parts()) == cpu.time.end_ms());
}

TEST_CASE("work of which no time is known is named once and takes none") {
  Planned cpu(at::kCPU);
  cpu.run(StreamId::kCompute, "head", 3);
  cpu.run(StreamId::kCompute, "head", 3);
  CHECK(cpu.time.unknown() == std::vector<std::string>{"head"});
  CHECK(cpu.time.end_ms() == 0);
}

}  // namespace fsdp::test::planned_time_test
