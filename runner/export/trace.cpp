// Writes what ranks did in traced steps as PyTorch's profiler would, for Perfetto, TensorBoard and
// Holistic Trace Analysis. A moment of a stream is in at most one kernel, so their times add up.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/files/gzip.h"
#include "base/files/whole_file.h"
#include "base/text/json.h"
#include "contract/record/step_account.h"
#include "contract/record/step_trace.h"
#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

// Numbers of streams. PyTorch's profiler calls the first one 7, too.
constexpr int kComputeStream = 7;
constexpr int kFirstCollectiveStream = 20;
constexpr int kFirstOtherStream = 1000;
constexpr int kHostThread = 1;

// False if the stream waits, and for unnamed work.
bool is_computed(std::string_view part) {
  const auto named = enum_from_name<TimePart>(part);
  if (!named || is_collective(*named)) return false;
  switch (*named) {
    case TimePart::kSlowerRanks:
    case TimePart::kCopies:
    case TimePart::kData:
    case TimePart::kOther:
      return false;
    default:
      return true;
  }
}

// Names by which the tools know communication and copies.
std::string kernel_name(const TraceSpan& span) {
  static const std::map<std::string_view, const char*> kNames{
      {"all_gather", "ncclDevKernel_AllGather"},
      {"reduce_scatter", "ncclDevKernel_ReduceScatter"},
      {"all_reduce", "ncclDevKernel_AllReduce"},
      {"barrier", "ncclDevKernel_AllReduce_barrier"},
      {"copy to the host", "Memcpy DtoH (Device -> Pinned)"},
      {"copy to the device", "Memcpy HtoD (Pinned -> Device)"}};
  const auto found = kNames.find(span.name);
  return found == kNames.end() ? span.name : found->second;
}

// Gives spans that overlap different streams, as far as there are some.
class Lanes {
 public:
  explicit Lanes(int first) : first_(first) {}

  int stream_of(int64_t begin_ns, int64_t end_ns) {
    auto free = std::ranges::find_if(ends_ns_, [&](int64_t end) { return end <= begin_ns; });
    if (free == ends_ns_.end() && ends_ns_.size() == kMost) --free;
    if (free == ends_ns_.end()) free = ends_ns_.insert(free, 0);
    *free = end_ns;
    return first_ + static_cast<int>(free - ends_ns_.begin());
  }
  int count() const { return static_cast<int>(ends_ns_.size()); }

 private:
  static constexpr size_t kMost = 64;

  int first_;
  std::vector<int64_t> ends_ns_;
};

class TraceText {
 public:
  // Times are since `base_unix_ms`.
  TraceText(const RunStarted& rank, int64_t base_unix_ms)
      : rank_(rank.rank), base_ms_(base_unix_ms) {
    JsonObject device;
    device.add("id", rank_).add("name", rank.device_name);
    // Holistic Trace Analysis finds a file's rank by its text, with the space.
    text_ =
        fmt::format(R"({{"schemaVersion": 1, "baseTimeNanoseconds": {}, "deviceProperties": [{}], )"
                    R"("distributedInfo": {{"rank": {}, "world_size": {}}}, "traceEvents": [)",
                    base_ms_ * 1'000'000, device.text(), rank_, rank.world_size);
    name("process_name", 0, fmt::format("rank {} on {}", rank_, rank.host));
    name("thread_name", kHostThread, "steps");
    name("thread_name", kComputeStream, "computation");
  }

  void add(const StepTrace& step) {
    std::vector<TraceSpan> spans = step.spans;
    // A span comes before the spans that it encloses.
    std::ranges::stable_sort(
        spans, {}, [](const TraceSpan& span) { return std::pair(span.begin_ns, -span.time_ns); });
    begin_step(step);
    const auto lane = [&](Lanes& lanes, const TraceSpan& span) {
      const int64_t begin_ns = step_begin_ns_ + span.begin_ns;
      return lanes.stream_of(begin_ns, begin_ns + span.time_ns);
    };
    for (const TraceSpan& span : spans) {
      switch (span.kind) {
        case SpanKind::kPart:
          add(span, is_computed(span.name) ? "kernel" : "wait", kComputeStream);
          break;
        case SpanKind::kWork:
          add(span, "gpu_user_annotation", kComputeStream);
          break;
        case SpanKind::kBeside:
          add(span, "kernel", lane(others_, span));
          break;
        case SpanKind::kCollective:
          add(span, "kernel", lane(collectives_, span));
          break;
      }
    }
  }

  // Adds the memory of tensors. The times of changes are since `begin_unix_ms`.
  void add(std::span<const MemoryChange> changes, int64_t begin_unix_ms) {
    const int64_t begin_ns = (begin_unix_ms - base_ms_) * 1'000'000;
    int64_t allocated_bytes = 0;
    for (size_t i = 0; i < changes.size(); ++i) {
      const MemoryChange& change = changes[i];
      allocated_bytes += change.added_bytes();
      const bool is_moment = i + 1 == changes.size() || changes[i + 1].at_ns != change.at_ns;
      if (!is_moment) continue;
      JsonObject event, bytes;
      bytes.add("bytes", allocated_bytes);
      event.add("ph", "C").add("name", "allocated memory").add("pid", rank_);
      event.add("ts", microseconds(begin_ns + change.at_ns)).add("args", bytes);
      line(event);
    }
  }

  std::string finish() {
    for (int i = 0; i < collectives_.count(); ++i) {
      name("thread_name", kFirstCollectiveStream + i, "collectives");
    }
    for (int i = 0; i < others_.count(); ++i) {
      name("thread_name", kFirstOtherStream + i, "other streams");
    }
    return text_ + "\n]}\n";
  }

 private:
  void line(const JsonObject& event) {
    text_ += is_first_ ? "\n" : ",\n";
    text_ += event.text();
    is_first_ = false;
  }

  void name(const char* what, int thread, const std::string& name) {
    JsonObject event, arguments;
    arguments.add("name", name);
    event.add("ph", "M").add("name", what).add("pid", rank_).add("tid", thread);
    event.add("ts", 0).add("args", arguments);
    line(event);
  }

  // A step follows the one before: its first work was issued while that one was under way. Work
  // on other streams may last longer than its step.
  void begin_step(const StepTrace& step) {
    int64_t end_ns = 0;
    for (const TraceSpan& span : step.spans) {
      if (span.kind == SpanKind::kPart) end_ns = std::max(end_ns, span.begin_ns + span.time_ns);
    }
    step_begin_ns_ = std::max(step_end_ns_, (step.begin_unix_ms - base_ms_) * 1'000'000);
    step_end_ns_ = step_begin_ns_ + end_ns;
    const TraceSpan whole{.name = fmt::format("ProfilerStep#{}", step.step), .time_ns = end_ns};
    add(whole, "user_annotation", kHostThread);
  }

  void add(const TraceSpan& span, const char* category, int stream) {
    const bool is_kernel = category == std::string_view("kernel");
    JsonObject arguments;
    if (is_kernel) {
      arguments.add("device", rank_).add("stream", stream).add("correlation", ++kernels_);
    }
    if (span.unit) arguments.add("unit", *span.unit);
    if (span.bytes > 0) arguments.add("bytes", span.bytes);
    line(event(category, kernel_name(span), stream, span.begin_ns, span.time_ns)
             .add("args", arguments));
    if (is_kernel) add_launch(std::max<int64_t>(0, span.begin_ns));
  }

  // The programs know a kernel's step by the launch of the kernel. When it was launched was not
  // recorded.
  void add_launch(int64_t at_ns) {
    JsonObject arguments;
    arguments.add("correlation", kernels_);
    line(event("cuda_runtime", "cudaLaunchKernel", kHostThread, at_ns, 0).add("args", arguments));
  }

  JsonObject event(const char* category, const std::string& name, int thread, int64_t begin_ns,
                   int64_t time_ns) const {
    JsonObject event;
    event.add("ph", "X").add("cat", category).add("name", name).add("pid", rank_);
    event.add("tid", thread).add("ts", microseconds(step_begin_ns_ + begin_ns));
    return event.add("dur", microseconds(time_ns));
  }

  static double microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

  int64_t rank_;
  int64_t base_ms_;
  std::string text_;
  bool is_first_ = true;
  Lanes collectives_{kFirstCollectiveStream};
  Lanes others_{kFirstOtherStream};
  int64_t step_begin_ns_ = 0;
  int64_t step_end_ns_ = 0;
  int64_t kernels_ = 0;
};

// Returns when the first span began, rounded down; 0 if none began before the step.
int64_t earliest_ms(const StepTrace& step) {
  int64_t earliest_ns = 0;
  for (const TraceSpan& span : step.spans) earliest_ns = std::min(earliest_ns, span.begin_ns);
  return (earliest_ns - 999'999) / 1'000'000;
}

}  // namespace

void write_trace(const std::filesystem::path& file, const RunStarted& rank, const RankTrace& trace,
                 int64_t base_unix_ms) {
  TraceText text(rank, base_unix_ms);
  for (const StepTrace& step : trace.steps) text.add(step);
  if (!trace.steps.empty()) text.add(trace.memory, trace.steps.front().begin_unix_ms);
  replace_file(file, gzipped(text.finish()));
}

void write_traces(const RankTraces& traces, const std::filesystem::path& folder) {
  int64_t base_unix_ms = std::numeric_limits<int64_t>::max();
  for (const auto& [rank, trace] : traces) {
    for (const StepTrace& step : trace.steps) {
      base_unix_ms = std::min(base_unix_ms, step.begin_unix_ms + earliest_ms(step));
    }
  }
  for (const auto& [rank, trace] : traces) {
    write_trace(folder / fmt::format("rank{}.json.gz", rank.rank), rank, trace, base_unix_ms);
  }
}

}  // namespace fsdp
