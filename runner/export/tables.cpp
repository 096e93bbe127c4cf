#include "runner/export/exported_run.h"
#include "runner/export/table_file.h"

namespace fsdp {
namespace {

// The columns before an event's own fields.
struct EventKey {
  int attempt = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("attempt", self.attempt);
  }
};

template <typename Body>
void write_events(const Store& store, int64_t run_id, const std::filesystem::path& stem,
                  bool as_json) {
  TableFile<EventKey, Recorded<Body>> file(stem, as_json);
  for (const AttemptRecord& attempt : store.attempts(run_id)) {
    for (const Recorded<Body>& event : store.events<Body>(run_id, attempt.attempt)) {
      file.add({attempt.attempt}, event);
    }
  }
  file.close();
}

}  // namespace

void write_tables(const Store& store, const ComparisonRow& run, const std::filesystem::path& folder,
                  bool as_json) {
  write_events<StepDone>(store, run.run, folder / "steps", as_json);
  write_events<EvaluationDone>(store, run.run, folder / "evaluations", as_json);
  write_events<CheckpointDone>(store, run.run, folder / "checkpoints", as_json);
  write_events<DeviceSample>(store, run.run, folder / "device_samples", as_json);
}

}  // namespace fsdp
