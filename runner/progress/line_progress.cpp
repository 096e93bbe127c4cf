#include "runner/progress/line_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "contract/record/standard_streams.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/utf8.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kLineInterval{10};
constexpr int64_t kLinesPerRun = 10;

std::string as_line(std::string_view text) { return visible_line(text) + '\n'; }

}  // namespace

void LineProgress::say(std::string_view line) { write_whole(STDERR_FILENO, as_line(line)); }

void LineProgress::show(const RunProgress& run) {
  if (run.status == RunStatus::kRunning) {
    last_lines_[run.point] = {.time = *run.started};
    say(fmt::format("{}: started{}{}, {}{}{}", run.point, run.job.empty() ? "" : ", job ", run.job,
                    counted(run.ranks, "rank"), run.steps > 0 ? ", " : "",
                    run.steps > 0 ? counted(run.steps, "step") : ""));
  } else if (run.status == RunStatus::kQueued && run.started) {  // not the first submission
    say(run.point + ": waits again, job " + run.job);
  } else if (run.has_ended()) {
    last_lines_.erase(run.point);
    say(end_line(run));
  }
}

void LineProgress::update(ProgressClock::time_point now) {
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

// Runs that wait for the same reason, such as jobs behind others in a queue, share a line.
void LineProgress::show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) {
  std::map<std::string, std::vector<std::string>> points;
  for (const auto& [run, waiting] : runs) {
    points[waiting_text(waiting, now)].push_back(run->point);
  }
  for (const auto& [text, names] : points) say(joined_names(names) + ": " + text);
}

void QuietProgress::warn(std::string_view line) { write_whole(STDERR_FILENO, as_line(line)); }

void QuietProgress::show(const RunProgress& run) {
  if (run.has_failed()) warn(end_line(run));
}

}  // namespace fsdp
