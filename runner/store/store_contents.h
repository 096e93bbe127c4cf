#pragma once

#include <map>
#include <string>
#include <utility>

#include "runner/store/attempt_figures.h"
#include "runner/store/database.h"
#include "runner/store/schema.h"
#include "runner/store/store.h"

// The inside of Store, shared by its source files.
namespace fsdp {

// RunRecord's fields, in the table `runs r`.
inline const std::string kRunColumns =
    "r.id, r.experiment, r.point, r.hash, r.folder, r.status, r.reason, "
    "coalesce((select max(attempt) from attempts where run = r.id), 0), "
    "(select source from experiments where name = r.experiment), r.current, r.data_digest, "
    "r.repeat";
inline const std::string kSelectRuns = "select " + kRunColumns + " from runs r ";

struct Store::Contents {
  // An attempt and the figures computed from its events so far.
  struct Figures {
    AttemptFigures computed;
    std::map<int64_t, int64_t> last_sequences;  // by rank, of the last event in the figures
    int64_t events = 0;
    int64_t events_written = 0;  // number of events in the figures last written
  };

  // These functions work within the caller's transaction.
  void ingest_rank(int64_t run_id, int attempt, int rank, std::span<const Event> events,
                   int64_t skipped_lines, Figures& figures);
  // Returns the figures in memory if they match the database's events, else computes them anew.
  // Another process may have written, or a transaction may have been rolled back.
  Figures& figures_of(int64_t run_id, int attempt);
  void write(int64_t run_id, int attempt, Figures& figures, bool has_ended);
  // Adds the first losses of the run, if the attempt resumed from a checkpoint.
  void add_losses_before(AttemptSummary& summary, int64_t run_id, int attempt);
  std::vector<Stretch> stretches(int64_t run_id, int attempt);

  // Returns a statement that inserts into the table of these events.
  template <Fields Body>
  Statement& insert_event() {
    const std::string table = event_table<Body>.name;
    const auto found = insert_events.find(table);
    if (found != insert_events.end()) return found->second;
    Statement insert(database, "insert or ignore into " + table + " " +
                                   values_of("run, attempt, " + field_columns<Recorded<Body>>()));
    return insert_events.emplace(table, std::move(insert)).first->second;
  }

  Database database;
  std::map<std::pair<int64_t, int>, Figures> figures{};  // of attempts that are being ingested
  // Kept prepared, because they run once per event.
  Statement last_sequences{database,
                           "select rank, last_sequence from ranks where run = ? and attempt = ?"};
  Statement insert_rank{
      database, "insert into ranks (run, attempt, rank, last_sequence) values (?, ?, ?, -1)"};
  std::map<std::string, Statement> insert_events{};  // by table
  Statement update_start{database, "update ranks set started_unix_ms = ?, " +
                                       field_columns<RunStarted>(" = ?") +
                                       " where run = ? and attempt = ? and rank = ?"};
  Statement update_end{
      database,
      "update ranks set end_kind = ?, ended_unix_ms = ?, exit_code = ?, reason = ? "
      "where run = ? and attempt = ? and rank = ?"};
  Statement update_last_sequence{
      database,
      "update ranks set last_sequence = ?, last_event_unix_ms = ?, "
      "steps = coalesce(steps, 0) + ? where run = ? and attempt = ? and rank = ?"};
  Statement update_skipped_lines{
      database,
      "update ranks set skipped_lines = ? "
      "where run = ? and attempt = ? and rank = ? and skipped_lines < ?"};
  Statement update_rank_summary{database, "update ranks set " + field_columns<RankSummary>(" = ?") +
                                              " where run = ? and attempt = ? and rank = ?"};
  Statement write_summary{database,
                          "insert or replace into summaries " +
                              values_of("run, attempt, " + field_columns<AttemptSummary>())};
};

}  // namespace fsdp
