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

}  // namespace fsdp
