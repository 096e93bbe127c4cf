#include "runner/progress/json_progress.h"

#include <unistd.h>

#include "contract/record/standard_streams.h"
#include "contract/text/json.h"

namespace fsdp {
namespace {

// A line's fields, in the order in which they are added.
class JsonLine {
 public:
  explicit JsonLine(std::string_view kind) : text_("{") { field("kind", kind); }

  template <typename T>
  JsonLine& field(std::string_view name, const T& value) {
    if (text_.size() > 1) text_ += ',';
    append_json_string(text_, name);
    text_ += ':';
    append_json(text_, value);
    return *this;
  }
  std::string text() const { return text_ + "}\n"; }

 private:
  std::string text_;
};

}  // namespace

void JsonProgress::say(std::string_view line) {
  write_whole(STDOUT_FILENO, JsonLine("message").field("text", line).text());
}

void JsonProgress::warn(std::string_view line) {
  write_whole(STDOUT_FILENO, JsonLine("warning").field("text", line).text());
}

void JsonProgress::show_plan(const RunProgress& run) {
  write_whole(STDOUT_FILENO, JsonLine("run_planned")
                                 .field("point", run.point)
                                 .field("ranks", run.ranks)
                                 .field("steps", run.steps)
                                 .text());
}

void JsonProgress::show_queued(const RunProgress& run) {
  write_whole(STDOUT_FILENO,
              JsonLine("run_queued").field("point", run.point).field("job", run.job).text());
}

void JsonProgress::show_start(const RunProgress& run) {
  write_whole(STDOUT_FILENO, JsonLine("run_started").field("point", run.point).text());
}

void JsonProgress::show_end(const RunProgress& run, const std::string& reason,
                            const std::filesystem::path& log) {
  write_whole(STDOUT_FILENO, JsonLine("run_ended")
                                 .field("point", run.point)
                                 .field("status", run.status)
                                 .field("reason", reason)
                                 .field("log", log)
                                 .field("step", run.step)
                                 .field("elapsed_s", run.elapsed_s)
                                 .text());
}

void JsonProgress::refresh() {
  const ProgressClock::time_point now = ProgressClock::now();
  for (const size_t index : running()) {
    const RunProgress& run = runs()[index];
    if (run.step == shown_steps_[index]) continue;
    shown_steps_[index] = run.step;
    write_whole(STDOUT_FILENO,
                JsonLine("run_progress")
                    .field("point", run.point)
                    .field("step", run.step)
                    .field("steps", run.steps)
                    .field("loss", run.loss)
                    .field("step_time_ms", run.step_time_ms)
                    .field("memory_allocated_bytes_max", run.memory_allocated_bytes_max)
                    .field("seconds_left", seconds_left(run))
                    .field("sweep_seconds_left", seconds_left(runs(), now))
                    .text());
  }
}

}  // namespace fsdp
