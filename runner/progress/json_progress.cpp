#include "runner/progress/json_progress.h"

#include <unistd.h>

#include "contract/record/standard_streams.h"
#include "contract/text/json.h"

namespace fsdp {
namespace {

JsonObject line_of(std::string_view kind, const RunProgress& run) {
  return JsonObject().add("kind", kind).add("point", run.point);
}

void write(const JsonObject& line) { write_whole(STDOUT_FILENO, line.text() + '\n'); }

}  // namespace

void JsonProgress::say(std::string_view line) {
  write(JsonObject().add("kind", "message").add("text", line));
}

void JsonProgress::warn(std::string_view line) {
  write(JsonObject().add("kind", "warning").add("text", line));
}

void JsonProgress::show(const RunProgress& run) {
  switch (run.status) {
    case RunStatus::kPlanned:
      return write(line_of("run_planned", run).add("ranks", run.ranks).add("steps", run.steps));
    case RunStatus::kQueued:
      return write(line_of("run_queued", run).add("job", run.job));
    case RunStatus::kRunning:
      return write(line_of("run_started", run));
    default:
      write(line_of("run_ended", run)
                .add("status", run.status)
                .add("reason", run.reason)
                .add("log", run.log)
                .add("step", run.step)
                .add("elapsed_s", run.elapsed_s));
  }
}

void JsonProgress::show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) {
  for (const auto& [run, waiting] : runs) {
    write(line_of("run_waits", *run)
              .add("for", waiting.what)
              .add("text", waiting.text)
              .add("seconds", std::chrono::duration<double>(now - waiting.since).count()));
  }
}

void JsonProgress::update(ProgressClock::time_point now) {
  for (const size_t index : running()) {
    const RunProgress& run = runs()[index];
    if (run.step == shown_steps_[index]) continue;
    shown_steps_[index] = run.step;
    write(line_of("run_progress", run)
              .add("step", run.step)
              .add("steps", run.steps)
              .add("loss", run.loss)
              .add("step_time_ms", run.step_time_ms)
              .add("memory_allocated_bytes_max", run.memory_allocated_bytes_max)
              .add("seconds_left", seconds_left(run))
              .add("sweep_seconds_left", seconds_left(runs(), now)));
  }
}

}  // namespace fsdp
