// Writes what ranks did in traced steps as PyTorch's profiler would, for Perfetto, TensorBoard and
// Holistic Trace Analysis. A moment of a stream is in at most one kernel, so their times add up.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/text/json.h"
#include "contract/record/run_paths.h"
#include "contract/record/step_account.h"
#include "contract/record/step_trace.h"
#include "runner/export/exported_run.h"
#include "runner/store/record_files.h"

namespace fsdp {
namespace {

// Numbers of streams. PyTorch's profiler calls the first one 7, too.
constexpr int kComputeStream = 7;
constexpr int kFirstCollectiveStream = 20;
constexpr int kFirstOtherStream = 40;
constexpr int kHostThread = 1;

// True if the stream has something to do. Else it waits.
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

// Gives spans that overlap different streams.
class Lanes {
 public:
  explicit Lanes(int first) : first_(first) {}

  int stream_of(const TraceSpan& span) {
    auto free = std::ranges::find_if(ends_ns_, [&](int64_t end) { return end <= span.begin_ns; });
    if (free == ends_ns_.end()) free = ends_ns_.insert(free, 0);
    *free = span.begin_ns + span.time_ns;
    return first_ + static_cast<int>(free - ends_ns_.begin());
  }
  void begin_step() { std::ranges::fill(ends_ns_, 0); }
  int count() const { return static_cast<int>(ends_ns_.size()); }

 private:
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
    std::ranges::stable_sort(spans, {}, &TraceSpan::begin_ns);
    collectives_.begin_step();
    others_.begin_step();
    begin_step(step);
    for (const TraceSpan& span : spans) {
      switch (span.kind) {
        case SpanKind::kPart:
          add(span, is_computed(span.name) ? "kernel" : "wait", kComputeStream);
          break;
        case SpanKind::kWork:
          add(span, "gpu_user_annotation", kComputeStream);
          break;
        case SpanKind::kBeside:
          add(span, "kernel", others_.stream_of(span));
          break;
        case SpanKind::kCollective:
          add(span, "kernel", collectives_.stream_of(span));
          break;
      }
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

  // A step follows the one before: its first work was issued while that one was under way.
  void begin_step(const StepTrace& step) {
    int64_t end_ns = 0;
    for (const TraceSpan& span : step.spans) {
      end_ns = std::max(end_ns, span.begin_ns + span.time_ns);
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
    if (is_kernel) add_launch(span.begin_ns);
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

void write_gzip(const std::filesystem::path& file, const std::string& text) {
  const auto fail = [&] {
    throw std::system_error(errno, std::generic_category(),
                            file.string() +
                                " cannot be written; free its place or name another "
                                "folder");
  };
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> stream(gzopen(file.c_str(), "wb"), gzclose);
  if (!stream) fail();
  if (gzwrite(stream.get(), text.data(), static_cast<unsigned>(text.size())) == 0) fail();
  if (gzflush(stream.get(), Z_FINISH) != Z_OK) fail();
}

// Throws std::runtime_error if the file is not what a trainer writes.
RankTrace read_trace(const std::filesystem::path& file) {
  constexpr int64_t kLongestNs = int64_t{1'000'000'000} * 86'400 * 365;
  const auto is_time = [](int64_t ns) { return ns >= 0 && ns <= kLongestNs; };
  try {
    RankTrace trace = read_record<RankTrace>(file);
    for (const StepTrace& step : trace.steps) {
      check_moment(step.begin_unix_ms);
      for (const TraceSpan& span : step.spans) {
        if (is_time(span.begin_ns) && is_time(span.time_ns)) continue;
        throw std::runtime_error("no time of a step: " + json_text(span));
      }
    }
    return trace;
  } catch (const std::exception& error) {
    throw std::runtime_error(file.string() +
                             " is not what fsdp-train writes there: " + error.what());
  }
}

}  // namespace

void write_trace(const std::filesystem::path& file, const RunStarted& rank,
                 std::span<const StepTrace> steps, int64_t base_unix_ms) {
  TraceText text(rank, base_unix_ms);
  for (const StepTrace& step : steps) text.add(step);
  write_gzip(file, text.finish());
}

bool write_traces(const Store& store, const ComparisonRow& run,
                  const std::filesystem::path& results, const std::filesystem::path& folder) {
  const RunPaths paths(results / run.folder);
  const int attempt = static_cast<int>(*run.attempt);
  std::vector<std::pair<RunStarted, RankTrace>> traces;
  int64_t base_unix_ms = std::numeric_limits<int64_t>::max();
  for (const RunStarted& rank : store.rank_facts(run.run, attempt)) {
    const std::filesystem::path file = paths.trace(attempt, static_cast<int>(rank.rank));
    std::error_code not_there;
    if (!std::filesystem::exists(file, not_there)) continue;
    traces.emplace_back(rank, read_trace(file));
    for (const StepTrace& step : traces.back().second.steps) {
      base_unix_ms = std::min(base_unix_ms, step.begin_unix_ms);
    }
  }
  for (const auto& [rank, trace] : traces) {
    write_trace(folder / fmt::format("rank{}.json.gz", rank.rank), rank, trace.steps, base_unix_ms);
  }
  return !traces.empty();
}

}  // namespace fsdp
