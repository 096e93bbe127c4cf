#include "runner/store/store.h"

#include "base/text/config_error.h"
#include "base/text/json.h"
#include "runner/store/results_database.h"
#include "runner/store/run_folders.h"
#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

constexpr const char* kPlanRun = R"sql(
insert into runs (experiment, point, hash, folder, position, current, status, reason,
  series, repeat, data_digest, loss_digest, family, family_key, family_value, spec)
values (?, ?, ?, ?, ?, 1, 'planned', '', ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (experiment, point, hash)
do update set position = excluded.position, current = 1, folder = excluded.folder,
  series = excluded.series, repeat = excluded.repeat, data_digest = excluded.data_digest,
  loss_digest = excluded.loss_digest, family = excluded.family, family_key = excluded.family_key,
  family_value = excluded.family_value, spec = excluded.spec)sql";

// Records runs of a current list, within the caller's transaction.
class RunPlanning {
 public:
  explicit RunPlanning(Database& database) : database_(database) {}

  RunRecord plan(std::string_view experiment, const RunRecord& run) {
    std::string spec;
    append_json(spec, run.spec);
    plan_run_.run(experiment, run.point, run.hash, folder_of(experiment, run), run.position,
                  run.series, run.repeat, run.data_digest, run.loss_digest, run.family,
                  run.family_key, run.family_value, spec);
    RunRecord record = select_run_.value<RunRecord>(experiment, run.point, run.hash).value();
    record.spec = run.spec;
    return record;
  }

 private:
  // Returns the recorded folder, else the one that the run wants, with a number if necessary. No
  // other run of these results has it.
  std::filesystem::path folder_of(std::string_view experiment, const RunRecord& run) {
    const auto is_free = [&](const std::filesystem::path& folder) {
      return others_of_folder_.value<int64_t>(folder, experiment, run.point, run.hash) == 0;
    };
    const auto recorded =
        recorded_folder_.value<std::filesystem::path>(experiment, run.point, run.hash);
    if (recorded && is_run_folder(*recorded) && is_free(*recorded)) return *recorded;
    std::filesystem::path folder = run.folder;
    for (int number = 2; !is_free(folder); ++number) {
      folder = run.folder.string() + '~' + std::to_string(number);
    }
    return folder;
  }

  Database& database_;
  Statement plan_run_{database_, kPlanRun};
  Statement recorded_folder_{database_,
                             "select folder from runs where (experiment, point, hash) = (?, ?, ?)"};
  Statement others_of_folder_{
      database_,
      "select count(*) from runs r join experiments e on e.name = r.experiment "
      "where r.folder = ? and e.source = '' and (r.experiment, r.point, r.hash) <> (?, ?, ?)"};
  Statement select_run_{database_, kSelectRuns + "where (experiment, point, hash) = (?, ?, ?)"};
};

}  // namespace

Store::Store(const std::filesystem::path& results, StoreUse use)
    : contents_(std::make_unique<Contents>(open_results(results, use))) {}

Store::~Store() = default;

void Store::set_lock_wait(std::chrono::milliseconds longest) {
  contents_->database.set_lock_wait(longest);
}

void Store::check_is_writable() {
  Database& database = contents_->database;
  Transaction transaction(database);
  const int version = Statement(database, "pragma user_version").value<int>().value();
  database.execute("pragma user_version = " + std::to_string(version));
  transaction.commit();
}

Store::Batch::Batch(Store& store)
    : transaction_(std::make_unique<Transaction>(store.contents_->database)) {}

Store::Batch::~Batch() = default;

void Store::Batch::commit() { transaction_->commit(); }

std::vector<RunRecord> Store::plan(const ExperimentRecord& experiment,
                                   std::span<const RunRecord> runs) {
  Database& database = contents_->database;
  Statement plan_experiment(
      database,
      "insert into experiments (name, title, file, text, profile, compare) "
      "values (?, ?, ?, ?, ?, ?) "
      "on conflict (name) do update set title = excluded.title, file = excluded.file, "
      "text = excluded.text, profile = excluded.profile, compare = excluded.compare");
  Statement keep_text(database,
                      "insert or ignore into experiment_texts (digest, text) values (?, ?)");
  Statement clear_current(database, "update runs set current = 0 where experiment = ?");
  RunPlanning planning(database);

  Transaction transaction(database);
  require_own(experiment.name);
  plan_experiment.run(experiment.name, experiment.title, experiment.file, experiment.text,
                      experiment.profile, experiment.compare);
  if (!experiment.text_digest.empty()) keep_text.run(experiment.text_digest, experiment.text);
  clear_current.run(experiment.name);
  std::vector<RunRecord> records;
  records.reserve(runs.size());
  for (const RunRecord& run : runs) records.push_back(planning.plan(experiment.name, run));
  transaction.commit();
  return records;
}

RunRecord Store::plan_one_more(std::string_view experiment, const RunRecord& run) {
  Database& database = contents_->database;
  RunPlanning planning(database);
  Transaction transaction(database);
  require_own(experiment);
  RunRecord record = planning.plan(experiment, run);
  transaction.commit();
  return record;
}

void Store::require_own(std::string_view experiment) const {
  const auto source =
      Statement(contents_->database, "select source from experiments where name = ?")
          .value<std::string>(experiment);
  if (!source || source->empty()) return;
  throw ConfigError(contents_->database.file().string(), "",
                    "the runs of '" + std::string(experiment) + "' were merged from '" + *source +
                        "', whose files are not written to; rename `experiment:`, or choose "
                        "another folder with --results");
}

std::optional<std::filesystem::path> Store::experiment_file(std::string_view experiment) const {
  return Statement(contents_->database, "select file from experiments where name = ?")
      .value<std::filesystem::path>(experiment);
}

std::vector<ExperimentRecord> Store::experiments() const {
  std::vector<ExperimentRecord> experiments;
  Statement(contents_->database,
            "select name, title, file, profile, compare, source from experiments order by name")
      .query([&](Statement& row) {
        ExperimentRecord& experiment = experiments.emplace_back();
        experiment.name = row.next<std::string>();
        experiment.title = row.next<std::string>();
        experiment.file = row.next<std::filesystem::path>();
        experiment.profile = row.next<std::string>();
        experiment.compare = row.next<std::string>();
        experiment.source = row.next<std::string>();
      });
  return experiments;
}

int Store::begin_attempt(int64_t run_id, const AttemptStart& start, int first) {
  Database& database = contents_->database;
  Transaction transaction(database);
  const int attempt =
      Statement(database,
                "select max(?, coalesce(max(attempt), 0) + 1) from attempts where run = ?")
          .value<int>(first, run_id)
          .value();
  Statement(database, "insert into attempts " + values_of("run, attempt, status, reason, " +
                                                          field_columns<AttemptStart>()))
      .run(run_id, attempt, RunStatus::kRunning, "", start);
  Statement(database, "update runs set status = 'running', reason = '' where id = ?").run(run_id);
  transaction.commit();
  return attempt;
}

void Store::end_attempt(int64_t run_id, int attempt, RunStatus status, std::string_view reason,
                        int64_t ended_unix_ms, int reason_rank) {
  Database& database = contents_->database;
  Transaction transaction(database);
  Statement(database,
            "update attempts set status = ?, reason = ?, reason_rank = nullif(?, -1), "
            "ended_unix_ms = max(?, started_unix_ms) "
            "where run = ? and attempt = ?")
      .run(status, reason, reason_rank, ended_unix_ms, run_id, attempt);
  Statement(database,
            "update runs set (status, reason) = (select status, reason from attempts "
            "  where run = runs.id order by status in " +
                cut_short_statuses() +
                ", attempt desc limit 1) "
                "where id = ?")
      .run(run_id);
  contents_->write(run_id, attempt, contents_->figures_of(run_id, attempt), /*has_ended=*/true);
  transaction.commit();
  contents_->figures.erase({run_id, attempt});
}

void Store::record_status(int64_t run_id, RunStatus status, std::string_view reason) {
  Transaction transaction(contents_->database);
  Statement(contents_->database, "update runs set status = ?, reason = ? where id = ?")
      .run(status, reason, run_id);
  if (is_cut_short(status) || status == RunStatus::kFailed) {
    Statement(contents_->database,
              "update runs set (status, reason) = (select status, reason from attempts "
              "  where run = runs.id and status in ('finished', 'out_of_memory') "
              "  order by attempt desc limit 1) "
              "where id = ? and exists (select 1 from attempts "
              "  where run = runs.id and status in ('finished', 'out_of_memory'))")
        .run(run_id);
  }
  transaction.commit();
}

std::vector<RunningAttempt> Store::running_attempts(std::string_view experiment) const {
  Statement select(
      contents_->database,
      "select " + kRunColumns + ", a.attempt, r.ranks, " + field_columns<AttemptStart>() +
          " from attempts a join runs r on r.id = a.run "
          "where a.status = 'running' and r.experiment = ? and not exists ("
          "  select 1 from job_tasks t join jobs j on j.id = t.job where t.run = a.run "
          "  and t.over = 0 and a.slurm_job <> '' "
          "  and (j.slurm_job = '' or a.slurm_job in (j.slurm_job, j.slurm_job || '_' || t.task))) "
          "order by r.position, a.attempt");
  std::vector<RunningAttempt> running;
  for (auto& [run, attempt, ranks, start] :
       select.rows<RunRecord, int, int, AttemptStart>(experiment)) {
    running.push_back({std::move(run), attempt, ranks, std::move(start)});
  }
  return running;
}

std::optional<std::string> Store::digest(const FileState& file) const {
  return Statement(contents_->database, "select digest from file_digests where " +
                                            field_columns<FileState>(" = ?", "", " and "))
      .value<std::string>(file);
}

std::vector<std::string> Store::digests_of_path(std::string_view path) const {
  return Statement(contents_->database, "select digest from file_digests where path = ?")
      .rows<std::string>(path);
}

void Store::remember_digest(const FileState& file, std::string_view digest) {
  Statement(contents_->database, "insert or replace into file_digests " +
                                     values_of(field_columns<FileState>() + ", digest"))
      .run(file, digest);
}

}  // namespace fsdp
