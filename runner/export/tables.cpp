#include "runner/export/exported_run.h"
#include "runner/export/table_file.h"

namespace fsdp {
namespace {

// What comes before an event's own fields.
struct EventKey {
  int attempt = 0;
  int rank = 0;
  int64_t sequence = 0;
  int64_t time_unix_ms = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("attempt", self.attempt);
    visit("rank", self.rank);
    visit("sequence", self.sequence);
    visit("time_unix_ms", self.time_unix_ms);
  }
};

template <typename Body>
using ReadEvents = std::vector<Recorded<Body>> (Store::*)(int64_t run_id, int attempt) const;

template <typename Body>
void write_events(const Store& store, int64_t run_id, ReadEvents<Body> read,
                  const std::filesystem::path& stem, TableFormat format) {
  TableFile<EventKey, Body> file(stem, format);
  for (const AttemptRecord& attempt : store.attempts(run_id)) {
    for (const Recorded<Body>& event : (store.*read)(run_id, attempt.attempt)) {
      file.add({.attempt = attempt.attempt,
                .rank = event.rank,
                .sequence = event.sequence,
                .time_unix_ms = event.time_unix_ms},
               event.body);
    }
  }
  file.close();
}

}  // namespace

void write_tables(const Store& store, const ExportedRun& run, const std::filesystem::path& folder,
                  ExportFormat format) {
  const TableFormat table = format == ExportFormat::kCsv ? TableFormat::kCsv : TableFormat::kJsonl;
  const int64_t id = run.row.run;
  write_events<StepDone>(store, id, &Store::steps, folder / "steps", table);
  write_events<EvaluationDone>(store, id, &Store::evaluations, folder / "evaluations", table);
  write_events<CheckpointDone>(store, id, &Store::checkpoints, folder / "checkpoints", table);
  write_events<DeviceSample>(store, id, &Store::device_samples, folder / "device_samples", table);
}

}  // namespace fsdp
