#include "runner/store/store_contents.h"

namespace fsdp {

std::optional<RunRecord> Store::run(int64_t run_id) const {
  std::optional<RunRecord> record;
  Statement(contents_->database,
            std::string("select ") + kRunRecordColumns + " from runs r where id = ?")
      .query([&](Statement& row) { record = row.next<RunRecord>(); }, run_id);
  return record;
}

std::vector<RunRecord> Store::runs() const {
  std::vector<RunRecord> records;
  Statement(contents_->database, std::string("select ") + kRunRecordColumns +
                                     " from runs r order by experiment, position, id")
      .query([&](Statement& row) { records.push_back(row.next<RunRecord>()); });
  return records;
}

bool Store::shares_folder(const RunRecord& run) const {
  return Statement(contents_->database, "select count(*) from runs where folder = ? and id <> ?")
             .value<int64_t>(run.folder, run.id) != 0;
}

}  // namespace fsdp
