#include "runner/store/comparison.h"

#include "runner/store/store_contents.h"

namespace fsdp {
std::vector<ComparisonRow> Store::comparison(std::string_view experiment) const {
  return contents_->read_view<ComparisonRow>(kComparisonRows, experiment);
}

std::vector<RankRow> Store::comparison_per_rank(std::string_view experiment) const {
  return contents_->read_view<RankRow>("comparison_per_rank", experiment);
}

std::vector<RankEnd> Store::rank_ends(int64_t run_id, int attempt) const {
  Database& database = contents_->database;
  std::vector<RankEnd> ends(
      Statement(database, "select ranks from runs where id = ?").value<size_t>(run_id).value_or(0));
  for (size_t rank = 0; rank < ends.size(); ++rank) ends[rank].rank = static_cast<int>(rank);
  Statement(database,
            "select rank, end_kind, coalesce(exit_code, 0), coalesce(reason, ''), "
            "coalesce((select max(step) from steps s "
            "where s.run = k.run and s.attempt = k.attempt and s.rank = k.rank), 0), "
            "last_event_unix_ms from ranks k where run = ? and attempt = ?")
      .query(
          [&](Statement& row) {
            const RankEnd end = row.next<RankEnd>();
            ends.at(static_cast<size_t>(end.rank)) = end;
          },
          run_id, attempt);
  return ends;
}

}  // namespace fsdp
