#include "runner/store/store_contents.h"

namespace fsdp {

bool Store::delete_run(int64_t run_id) {
  Database& database = contents_->database;
  Transaction transaction(database);
  const auto running = Statement(database,
                                 "select count(*) from attempts a join runs r on r.id = a.run "
                                 "join experiments e on e.name = r.experiment "
                                 "where a.run = ? and a.status = 'running' and e.source = ''")
                           .value<int64_t>(run_id);
  const auto open = Statement(database, "select count(*) from job_tasks where run = ? and over = 0")
                        .value<int64_t>(run_id);
  if (running != 0 || open != 0) return false;
  database.execute("pragma defer_foreign_keys = on");
  std::vector<std::string> tables;
  Statement(database,
            "select m.name from sqlite_master m join pragma_table_info(m.name) c "
            "where m.type = 'table' and c.name = 'run'")
      .query([&](Statement& row) { tables.push_back(row.next<std::string>()); });
  for (const std::string& table : tables) {
    Statement(database, "delete from " + table + " where run = ?").run(run_id);
  }
  Statement(database, "delete from runs where id = ?").run(run_id);
  database.execute(
      "delete from jobs where id not in (select job from job_tasks);"
      "delete from experiments where name not in (select experiment from runs);"
      "delete from experiment_texts where digest not in "
      "  (select experiment_text_digest from attempts union select experiment_text_digest from "
      "jobs)");
  transaction.commit();
  return true;
}

void Store::delete_checkpoint(int64_t run_id, const std::filesystem::path& path) {
  Transaction transaction(contents_->database);
  Statement(contents_->database, "delete from checkpoints where run = ? and path = ?")
      .run(run_id, path);
  transaction.commit();
}

}  // namespace fsdp
