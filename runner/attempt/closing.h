#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runner/attempt/judgement.h"
#include "runner/attempt/records.h"
#include "runner/store/store.h"

namespace fsdp {

// An attempt that has no running process any more.
struct OverAttempt {
  const RunRecord& run;
  const RunSpec& spec;
  int attempt = 0;
  bool was_started = true;         // true if ranks were started
  std::optional<EndRecord> end{};  // as its launcher saw it; nullopt: the launcher was killed
  bool of_job = false;             // the next four: as in Evidence
  bool was_requeued = false;
  std::optional<TaskState> task{};
  bool shared_memory = false;
  int64_t ended_at_most_unix_ms = 0;  // used if neither launcher nor ranks tell
};

// Gives the store the rest of the attempt's events files. `warn` is told of lines that are no
// events.
void ingest_rest(Store& store, const std::filesystem::path& results, const OverAttempt& attempt,
                 const WarnOfFile& warn);

// Records the end of an attempt, after all its events are ingested. The end is as judged, or failed
// if its inputs changed. Inputs are compared now, unless its end record tells of that. No other
// function ends attempts. Throws ResultsUnavailable.
Ending close_attempt(Store& store, const std::filesystem::path& results,
                     const OverAttempt& attempt);

}  // namespace fsdp
