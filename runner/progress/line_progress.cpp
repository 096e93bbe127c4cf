#include "runner/progress/line_progress.h"

#include <unistd.h>

#include "contract/record/standard_streams.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/utf8.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kLineInterval{10};
constexpr int64_t kLinesPerRun = 10;

std::string as_line(std::string_view text) { return visible_line(text) + '\n'; }

}  // namespace

void LineProgress::say(std::string_view line) { write_whole(STDERR_FILENO, as_line(line)); }

void LineProgress::show_start(const RunProgress& run) {
  last_lines_[run.point] = {.time = *run.started};
  const std::string steps = run.steps > 0 ? ", " + counted(run.steps, "step") : "";
  const std::string job = run.job.empty() ? "" : ", job " + run.job;
  say(run.point + ": started" + job + ", " + counted(run.ranks, "rank") + steps);
}

// The first time goes without saying: it was submitted.
void LineProgress::show_queued(const RunProgress& run) {
  if (run.started) say(run.point + ": waits again, job " + run.job);
}

void LineProgress::show_end(const RunProgress& run, const std::string& reason,
                            const std::filesystem::path& log) {
  last_lines_.erase(run.point);
  say(end_line(run, reason, log));
}

void LineProgress::refresh() {
  const ProgressClock::time_point now = ProgressClock::now();
  for (const size_t index : running()) {
    const RunProgress& run = runs()[index];
    LastLine& last = last_lines_.at(run.point);
    const int64_t new_steps = run.step - last.step;
    if (now - last.time < kLineInterval || new_steps == 0 || new_steps * kLinesPerRun < run.steps) {
      continue;
    }
    last = {.time = now, .step = run.step};
    const std::optional<double> left = seconds_left(run);
    say(run.point + ": " + figures_text(run) + (left ? "  " + duration_text(*left) + " left" : ""));
  }
}

void QuietProgress::warn(std::string_view line) { write_whole(STDERR_FILENO, as_line(line)); }

void QuietProgress::show_end(const RunProgress& run, const std::string& reason,
                             const std::filesystem::path& log) {
  const bool has_result =
      run.status == RunStatus::kFinished || run.status == RunStatus::kOutOfMemory;
  if (!has_result) warn(end_line(run, reason, log));
}

}  // namespace fsdp
