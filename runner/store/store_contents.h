#pragma once

#include <map>
#include <utility>

#include "runner/store/attempt_figures.h"
#include "runner/store/database.h"
#include "runner/store/store.h"

// The inside of Store, shared by its source files.
namespace fsdp {

// RunRecord's fields, of the table `runs r`.
inline constexpr const char* kRunRecordColumns =
    "r.id, r.experiment, r.point, r.hash, r.folder, r.status, r.reason, "
    "coalesce((select max(attempt) from attempts where run = r.id), 0), "
    "(select source from experiments where name = r.experiment), r.current, r.data_digest";

struct Store::Contents {
  Contents(const std::filesystem::path& results, StoreUse use);

  // An attempt and what is computed from its events so far.
  struct Figures {
    AttemptFigures computed;
    std::map<int64_t, int64_t> last_sequences;  // by rank, of the last event in them
    int64_t events = 0;
    int64_t events_written = 0;  // how many there were when they were last written to the database
  };

  // These work within a transaction of the caller's.
  void ingest_rank(int64_t run_id, int attempt, int rank, std::span<const Event> events,
                   int64_t skipped_lines, Figures& figures);
  // Those in memory where they are of the same events as the database holds, else computed anew:
  // another process may have written, or a transaction have been rolled back.
  Figures& figures_of(int64_t run_id, int attempt);
  void write(int64_t run_id, int attempt, Figures& figures, bool has_ended);
  std::vector<Stretch> stretches(int64_t run_id, int attempt);
  // Losses of an attempt that went on from a checkpoint begin where its run's did.
  void add_losses_before(AttemptSummary& summary, int64_t run_id, int attempt);

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
  std::map<std::pair<int64_t, int>, Figures> figures;  // of attempts that are being ingested
  // Kept prepared because they run once per event.
  Statement last_sequences;
  Statement insert_rank;
  Statement insert_step;
  Statement insert_evaluation;
  Statement insert_checkpoint;
  Statement insert_device_sample;
  Statement update_start;
  Statement update_end;
  Statement update_last_sequence;
  Statement update_skipped_lines;
  Statement update_rank_summary;
  Statement write_summary;
  Statement write_task;
};

}  // namespace fsdp
