#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runner/attempt/judgement.h"
#include "runner/attempt/records.h"
#include "runner/store/store.h"

namespace fsdp {

// An attempt none of whose processes is left.
struct OverAttempt {
  const RunRecord& run;
  const RunSpec& spec;
  int attempt = 0;
  bool was_started = true;         // whether there ever were ranks
  std::optional<EndRecord> end{};  // as whoever started it saw it; absent: it was killed
  bool of_job = false;             // these four: as Evidence has them
  bool was_requeued = false;
  std::optional<TaskState> task{};
  bool shared_memory = false;
  int64_t ended_at_most_unix_ms = 0;  // when nobody says
};

// Gives the store what is left of the attempt's events files. `warn` is told of lines that are
// none.
void ingest_rest(Store& store, const std::filesystem::path& results, const OverAttempt& attempt,
                 const WarnOfFile& warn);

// Records how an attempt ended whose events are all ingested: as it was judged, unless its inputs
// changed, as was seen at its end or, where nobody looked then, as can be seen now. The one place
// where an attempt ends. Throws ResultsUnavailable.
Ending close_attempt(Store& store, const std::filesystem::path& results,
                     const OverAttempt& attempt);

}  // namespace fsdp
