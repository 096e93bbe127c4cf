#pragma once

#include "runner/store/database.h"
#include "runner/store/store.h"

// The inside of Store, shared by its source files.
namespace fsdp {

// RunRecord's fields, of the table `runs r`.
inline constexpr const char* kRunRecordColumns =
    "r.id, r.experiment, r.point, r.hash, r.folder, r.status, r.reason, "
    "coalesce((select max(attempt) from attempts where run = r.id), 0), r.current, r.data_digest";

struct Store::Contents {
  explicit Contents(const std::filesystem::path& results);

  // Within a transaction of the caller's.
  void ingest_rank(int64_t run_id, int attempt, int rank, std::span<const Event> events);
  // Computes the figures of the attempt from its steps; within a transaction of the caller's.
  void update_summary(int64_t run_id, int attempt);
  void update_running_summaries(std::string_view experiment);

  // The rows of one experiment or (empty) of all.
  template <typename Row>
  std::vector<Row> read_view(const std::string& view, std::string_view experiment) {
    std::vector<Row> rows;
    const auto add = [&](Statement& row) { rows.push_back(row.next<Row>()); };
    const std::string all = "select " + field_columns<Row>() + " from " + view;
    if (experiment.empty()) {
      Statement(database, all).query(add);
    } else {
      Statement(database, all + " where experiment = ?").query(add, experiment);
    }
    return rows;
  }

  Database database;
  // Kept prepared because they run once per event.
  Statement last_sequence;
  Statement insert_rank;
  Statement insert_step;
  Statement insert_evaluation;
  Statement insert_checkpoint;
  Statement insert_device_sample;
  Statement update_start;
  Statement update_end;
  Statement update_last_sequence;
};

}  // namespace fsdp
