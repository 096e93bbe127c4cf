#include <algorithm>
#include <array>

#include "runner/store/results_database.h"
#include "runner/store/schema.h"
#include "runner/store/store.h"

namespace fsdp {

void Store::write_planning_copy(const std::filesystem::path& file) const {
  // These reports of ranks are nearly all of a database.
  constexpr std::array kMeasurements = {
      event_table<StepDone>.name, event_table<EvaluationDone>.name,
      event_table<CheckpointDone>.name, event_table<DeviceSample>.name, event_table<CpuUse>.name};
  std::filesystem::remove(file);
  {
    Database copy(file);
    migrate(copy);
  }
  const AttachedDatabase copy(database_, file, "copy");
  Transaction transaction(database_);
  database_.execute("pragma defer_foreign_keys = on");
  for (const std::string& table :
       Statement(database_,
                 "select name from sqlite_master where type = 'table' and name not like 'sqlite%'")
           .rows<std::string>()) {
    if (std::ranges::find(kMeasurements, table) != kMeasurements.end()) continue;
    copy_table(database_, "main", "copy", table);
  }
  transaction.commit();
}

}  // namespace fsdp
