#include "runner/recovery.h"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "runner/store/event_files.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {
namespace {

// The kernel tells a process's start in ticks since boot, and the time of boot in whole seconds.
constexpr int64_t kStartTimeErrorMs = 2000;

int64_t boot_unix_ms() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    int64_t seconds = 0;
    if (word == "btime" && file >> seconds) return seconds * 1000;
  }
  throw std::runtime_error("/proc/stat does not tell when this host was started");
}

// When a process that runs now was started; nullopt when there is none.
std::optional<int64_t> process_start_unix_ms(int64_t process_id) {
  std::ifstream file("/proc/" + std::to_string(process_id) + "/stat");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string line = text.str();
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  // From the third field on (proc(5)): the state, and 19 fields later the start in ticks.
  std::istringstream fields(line.substr(name_end + 1));
  std::string state, skipped;
  fields >> state;
  for (int i = 4; i < 22; ++i) fields >> skipped;
  int64_t ticks = 0;
  if (!(fields >> ticks) || state == "Z") return std::nullopt;
  return boot_unix_ms() + ticks * 1000 / sysconf(_SC_CLK_TCK);
}

bool is_alive(const AttemptStart& start) {
  const std::optional<int64_t> started = process_start_unix_ms(start.runner_process_id);
  return start.runner_process_id != getpid() && started &&
         *started <= start.started_unix_ms + kStartTimeErrorMs;
}

}  // namespace

void recover_attempts(Store& store, const std::filesystem::path& results,
                      std::string_view experiment, std::string_view host,
                      bool take_other_hosts_for_dead,
                      const std::function<void(const std::string&)>& say) {
  const std::vector<RunningAttempt> attempts = store.running_attempts(experiment);
  for (const RunningAttempt& found : attempts) {
    const std::string runner = "process " + std::to_string(found.start.runner_process_id);
    if (found.start.host == host) {
      if (!is_alive(found.start)) continue;
      throw std::runtime_error("another fsdp-run (" + runner + ") is running '" + found.run.point +
                               "' of this experiment; wait for it, or stop it and call again");
    }
    if (take_other_hosts_for_dead) continue;
    throw std::runtime_error(
        "fsdp-run on host " + found.start.host + " (" + runner + ") began '" + found.run.point +
        "' of this experiment and has not ended it; wait for it, or call again "
        "with --rerun if it is gone");
  }
  for (const RunningAttempt& found : attempts) {
    EventTail tail(RunPaths(results / found.run.folder), found.attempt, found.ranks, say);
    store.ingest(found.run.id, found.attempt, tail.poll());
    AttemptEnd end = status_from_events(store.rank_ends(found.run.id, found.attempt));
    if (!end.cause_known) end.reason = "the runner was killed; " + end.reason;
    store.end_attempt(found.run.id, found.attempt, end.status, end.reason,
                      end.ended_unix_ms.value_or(found.start.started_unix_ms), end.reason_rank);
    say(found.run.point + ": the runner of attempt " + std::to_string(found.attempt) +
        " was killed; recorded as " + std::string(name_of(end.status)));
  }
}

}  // namespace fsdp
