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
    "r.repeat, r.position, r.family, r.family_key, r.family_value";
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

  // Returns the statement of this SQL, which stays prepared.
  Statement& prepared(const std::string& sql) {
    const auto found = statements.find(sql);
    if (found != statements.end()) return found->second;
    return statements.emplace(sql, Statement(database, sql)).first->second;
  }

  Database database;
  std::map<std::pair<int64_t, int>, Figures> figures{};  // of attempts that are being ingested
  std::map<std::string, Statement> statements{};         // by SQL
};

}  // namespace fsdp
