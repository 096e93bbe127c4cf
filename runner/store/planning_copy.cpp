#include <algorithm>
#include <array>

#include "runner/store/results_database.h"
#include "runner/store/store_contents.h"

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
  Database& database = contents_->database;
  const AttachedDatabase copy(database, file, "copy");
  Transaction transaction(database);
  database.execute("pragma defer_foreign_keys = on");
  for (const std::string& table :
       Statement(database,
                 "select name from sqlite_master where type = 'table' and name not like 'sqlite%'")
           .rows<std::string>()) {
    if (std::ranges::find(kMeasurements, table) != kMeasurements.end()) continue;
    copy_table(database, "main", "copy", table);
  }
  transaction.commit();
}

}  // namespace fsdp
