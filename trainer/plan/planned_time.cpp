// Runs a step on clocks. Work moves the clock of its stream, and waits join clocks.
#include "trainer/plan/planned_time.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/comm/mirror_group.h"

namespace fsdp {
namespace {

struct PlannedEvent : StreamEvent {
  explicit PlannedEvent(double when_ms) : time_ms(when_ms) {}
  double time_ms;
};

class PlannedStreams : public Streams {
 public:
  explicit PlannedStreams(PlannedTime& time) : time_(time) {}

  void run(StreamId stream, const Accesses&, const std::function<void()>& work) override {
    const StreamId outer = time_.current();
    time_.enter(stream);
    work();
    time_.enter(outer);
  }
  EventPtr record(StreamId stream) override {
    return std::make_shared<PlannedEvent>(time_.time_ms(stream));
  }
  void block(StreamId stream, const EventPtr& event) override {
    if (event) time_.block(stream, static_cast<const PlannedEvent&>(*event).time_ms);
  }
  bool is_done(const EventPtr&) override { return true; }
  void drain() noexcept override {}
  void allocated(StreamId, Buffer) override {}
  void freed(Buffer) override {}
  void renamed(Buffer, Buffer) override {}

 private:
  PlannedTime& time_;
};

class PlannedGroup : public MirrorGroup {
 public:
  PlannedGroup(int size, PlannedTime& time) : MirrorGroup(size), time_(time) {}

  Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
    MirrorGroup::all_gather(output, shard, unit);
    take_time("all_gather", output, unit, TimePart::kAllGatherForward);
    return {};
  }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override {
    MirrorGroup::reduce_scatter(shard, input, unit);
    take_time("reduce_scatter", input, unit, TimePart::kReduceScatter);
    return {};
  }
  Pending all_reduce(at::Tensor tensor, int unit) override {
    MirrorGroup::all_reduce(tensor, unit);
    take_time("all_reduce", tensor, unit, TimePart::kAllReduce);
    return {};
  }
  std::unique_ptr<ProcessGroup> subgroup(const std::string&,
                                         const std::vector<int>& ranks) override {
    return planned_group(static_cast<int>(ranks.size()), time_);
  }

 private:
  void take_time(const char* name, const at::Tensor& whole, int unit, TimePart part) {
    if (size() == 1) return;
    Work work = collective_work(name, size(), static_cast<int64_t>(whole.nbytes()));
    work.part = part;
    time_.collective(work, unit, free_ms_);
  }

  PlannedTime& time_;
  double free_ms_ = 0;
};

}  // namespace

PlannedTime::PlannedTime(WorkTimes times, c10::DeviceType planned_for)
    : times_(std::move(times)), is_on_cpu_(planned_for == c10::kCPU) {}

void PlannedTime::begin(const Work& work) {
  if (!work.name.empty()) advance(current_, begin_ms(), host_waited_for_);
  under_way_.push_back({part_now(work.part), work.name, clock(current_)});
  if (work.name.empty()) return;
  advance(current_, clock(current_) + duration_ms(work), part_under_way());
}

void PlannedTime::end() {
  const UnderWay& work = under_way_.back();
  if (!work.name.empty()) {
    add_span(is_compute(current_) ? SpanKind::kWork : SpanKind::kBeside, work.name, work.began_ms,
             clock(current_));
  }
  under_way_.pop_back();
}

void PlannedTime::begin_trace() {
  trace_begin_ms_ = end_ms();
  trace_.clear();
}

void PlannedTime::add_span(SpanKind kind, std::string_view name, double begin_ms, double end_ms,
                           int unit, int64_t bytes) {
  if (!trace_begin_ms_ || end_ms <= begin_ms) return;
  const auto nanoseconds = [&](double time_ms) {
    return std::llround(std::max(0.0, time_ms - *trace_begin_ms_) * 1e6);
  };
  trace_.push_back({.kind = kind,
                    .name = std::string(name),
                    .unit = known_unit(unit),
                    .bytes = bytes,
                    .begin_ns = nanoseconds(begin_ms),
                    .time_ns = nanoseconds(end_ms) - nanoseconds(begin_ms)});
}

TimePart PlannedTime::part_under_way() const {
  return under_way_.empty() ? TimePart::kOther : under_way_.back().part;
}

double PlannedTime::advance(StreamId stream, double until_ms, TimePart part) {
  const double more_ms = std::max(0.0, until_ms - clock(stream));
  clock(stream) += more_ms;
  if (is_compute(stream)) {
    parts_[part] += more_ms;
    add_span(SpanKind::kPart, name_of(part), clock(stream) - more_ms, clock(stream));
  }
  return more_ms;
}

// Work begins only after the calling thread has issued it.
double PlannedTime::begin_ms() { return std::max(clock(current_), clock(StreamId::kHost)); }

double PlannedTime::duration_ms(const Work& work) {
  const std::optional<double> time_ms = times_.time_ms(work);
  if (!time_ms && std::ranges::find(unknown_, work.name) == unknown_.end()) {
    unknown_.push_back(work.name);
  }
  return time_ms.value_or(0);
}

void PlannedTime::collective(const Work& work, int unit, double& free_ms) {
  const double begins_ms = std::max(free_ms, begin_ms());
  free_ms = begins_ms + duration_ms(work);
  add_span(SpanKind::kCollective, work.name.substr(0, work.name.find(' ')), begins_ms, free_ms,
           unit, work.width);
  if (is_on_cpu_) waited_ms_ += free_ms - clock(current_);
  advance(current_, free_ms, part_now(work.part));
}

void PlannedTime::block(StreamId stream, double until_ms) {
  if (stream == StreamId::kHost) host_waited_for_ = part_under_way();
  const double waits_ms = advance(stream, until_ms, part_under_way());
  if (is_compute(stream)) waited_ms_ += waits_ms;
}

double& PlannedTime::clock(StreamId stream) {
  return clocks_ms_[static_cast<size_t>(is_on_cpu_ ? StreamId::kCompute : stream)];
}

double PlannedTime::end_ms() const { return std::ranges::max(clocks_ms_); }

std::unique_ptr<Streams> planned_streams(PlannedTime& time) {
  return std::make_unique<PlannedStreams>(time);
}

std::unique_ptr<ProcessGroup> planned_group(int size, PlannedTime& time) {
  return std::make_unique<PlannedGroup>(size, time);
}

Work collective_work(const char* name, int ranks, int64_t bytes) {
  return {.name = std::string(name) + " of " + std::to_string(ranks) + " ranks", .width = bytes};
}

}  // namespace fsdp
