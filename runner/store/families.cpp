#include "runner/store/store_contents.h"

namespace fsdp {

std::optional<RunRecord> Store::recorded_run(std::string_view experiment, std::string_view point,
                                             std::string_view hash) const {
  std::optional<RunRecord> record;
  Statement(contents_->database, std::string("select ") + kRunRecordColumns +
                                     " from runs r where experiment = ? and point = ? and hash = ?")
      .query([&](Statement& row) { record = row.next<RunRecord>(); }, experiment, point, hash);
  return record;
}

std::optional<KnownOutOfMemory> Store::known_out_of_memory(std::string_view family,
                                                           std::string_view device_kind) const {
  std::optional<KnownOutOfMemory> known;
  Statement(contents_->database,
            "select r.id, r.experiment, r.point, r.family_value from runs r "
            "join experiments e on e.name = r.experiment and e.source = '' "
            "join attempts a on a.run = r.id and a.attempt = (select max(attempt) from attempts "
            "  where run = r.id and status not in " +
                cut_short_statuses() +
                ") "
                "where r.family = ? and r.family <> '' and a.status = 'out_of_memory' "
                "and a.device_kind = ? order by r.family_value, a.started_unix_ms limit 1")
      .query([&](Statement& row) { known = row.next<KnownOutOfMemory>(); }, family, device_kind);
  return known;
}

}  // namespace fsdp
