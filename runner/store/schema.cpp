#include "runner/store/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ranges>

#include "runner/store/database.h"
#include "runner/store/store.h"

namespace fsdp {
namespace {

constexpr const char* kSchema = R"sql(
create table experiments (
  name text primary key,
  title text not null,
  file text not null,
  text text not null,
  profile text not null,
  compare text not null,
  source text not null default ''
);
create table experiment_texts (
  digest text primary key,
  text text not null
) without rowid;

create table runs (
  id integer primary key,
  experiment text not null references experiments (name),
  point text not null,
  hash text not null,
  folder text not null,
  position integer not null,
  current integer not null check (current in (0, 1)),
  status text not null,
  reason text not null,
  series text not null,
  repeat integer not null,
  data_digest text not null,
  loss_digest text not null,
  family text not null,
  family_key text not null,
  family_value integer,
  spec text not null check (json_valid(spec)),
  unique (experiment, point, hash)
);
create index current_runs on runs (experiment, position, family_value) where current = 1;
create index runs_of_families on runs (family) where family <> '';
create index runs_of_folders on runs (folder);

create table stamps (
  place text primary key,
  stamp text not null
) without rowid;
create table file_digests (
  path text not null,
  device integer not null,
  inode integer not null,
  size_bytes integer not null,
  modified_unix_ns integer not null,
  changed_unix_ns integer not null,
  digest text not null,
  primary key (path, device, inode, size_bytes, modified_unix_ns, changed_unix_ns)
) without rowid;
create table attempts (
  run integer not null references runs (id),
  attempt integer not null,
  status text not null,
  reason text not null,
  reason_rank integer,
  ended_unix_ms integer,
  {attempt_start},
  primary key (run, attempt)
) without rowid;
create index running_attempts on attempts (run) where status = 'running';
create table ranks (
  run integer not null,
  attempt integer not null,
  last_sequence integer not null,
  last_event_unix_ms integer,
  started_unix_ms integer,
  end_kind text not null default 'none',
  ended_unix_ms integer,
  exit_code integer,
  reason text,
  skipped_lines integer not null default 0,
  place text,
  {run_started},
  {rank_summary},
  primary key (run, attempt, rank),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
create table summaries (
  run integer not null,
  attempt integer not null,
  {attempt_summary},
  primary key (run, attempt),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
{events}create table jobs (
  {job},
  primary key (id),
  unique (token),
  foreign key (experiment) references experiments (name)
);
create table job_tasks (
  job integer not null,
  {job_task},
  primary key (job, task),
  check (over in (0, 1)),
  foreign key (job) references jobs (id),
  foreign key (run) references runs (id)
) without rowid;
create index job_tasks_of_runs on job_tasks (run, job);
create index open_job_tasks on job_tasks (job) where over = 0;

create view shown_attempts as
select r.id as run, coalesce(
  (select max(attempt) from attempts where run = r.id and status not in {cut_short}),
  (select max(attempt) from attempts where run = r.id)) as attempt
from runs r;

create view attempt_times as
select a.run, a.attempt, max(0, coalesce(a.ended_unix_ms - a.started_unix_ms, s.total_time_ms, 0))
  as time_ms, a.gpus_held, a.nodes_held
from attempts a left join summaries s on s.run = a.run and s.attempt = a.attempt;

create view comparison as
{comparison}
where r.current = 1
order by r.experiment, r.position, r.family_value;

create view comparison_per_rank as
{comparison_per_rank}
order by c.experiment, c.position, c.family_value, k.rank;

create view statuses as
select r.experiment, r.id as run, r.point, r.status, r.reason, a.attempt, a.started_unix_ms,
  a.ended_unix_ms, a.host, a.runner_process_id, k.resumed_from_step + coalesce(k.steps, 0)
    as steps_done, k.steps_planned, s.step_time_ms_median, s.memory_allocated_bytes_max, s.loss_last,
  case when t.over = 0 or a.attempt is null then j.slurm_job || iif(
      j.slurm_job <> '' and j.mode = 'per_run', '_' || t.task, '')
    else a.slurm_job end as slurm_job,
  iif(t.over = 0 or a.attempt is null, t.node_list, a.node_list) as node_list,
  iif(t.over = 0, t.state, '') as job_state, iif(t.over = 0, t.reason, '') as job_reason,
  iif(t.over = 0, t.ends_unix_ms, null) as job_ends_unix_ms
from runs r
left join attempts a on a.run = r.id
  and a.attempt = (select attempt from shown_attempts where run = r.id)
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join job_tasks t on t.run = r.id and t.job = (select max(job) from job_tasks where run = r.id)
left join jobs j on j.id = t.job
where r.current = 1
order by r.experiment, r.position, r.family_value;
)sql";

// A row for each run.
constexpr const char* kComparison =
    R"sql(select r.experiment, e.source, r.id as run, substr(r.hash, 1, 8) as hash8, r.position, r.point,
  r.series, r.repeat, r.data_digest, r.loss_digest, r.family, r.family_key, r.family_value,
  e.compare, r.current, r.spec, r.folder, a.attempt, r.status, r.reason, a.reason_rank,
  a.started_unix_ms, a.host, a.slurm_job, a.node_list, a.git_commit, a.git_dirty,
  a.git_untracked, a.experiment_text_digest, a.runner_version, a.trainer_digest, a.cpu_name,
  k.device_name, k.device_memory_bytes, k.threads, k.parameter_count, k.trained_parameter_count,
  k.torch_version, k.cuda_version, k.driver_version, k.steps_planned, k.resumed_from_step,
  (select max(other_processes) from ranks where run = a.run and attempt = a.attempt)
    as other_processes,
  (select host from ranks where run = a.run and attempt = a.attempt and rank = s.account_rank)
    as account_host, a.memory_allocated_bytes_predicted,
  a.step_time_ms_predicted,
  (select coalesce(sum(skipped_lines), 0) from ranks where run = a.run and attempt = a.attempt)
    as skipped_lines,
  {figures}
from runs r
join experiments e on e.name = r.experiment
left join attempts a on a.run = r.id
  and a.attempt = (select attempt from shown_attempts where run = r.id)
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0)sql";

// One row for each rank of each row of comparison.
constexpr const char* kComparisonPerRank =
    R"sql(select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, {rank_figures}
from {comparison} c
left join ranks k on k.run = c.run and k.attempt = c.attempt)sql";

// One row for each event of a kind.
constexpr const char* kEvents = R"sql(create table {table} (
  run integer not null,
  attempt integer not null,
  {event},
  primary key (run, attempt, rank, {number}),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
)sql";

// The type of a column with values of T.
template <typename T>
constexpr std::string_view kSqlType = std::floating_point<T> ? "real"
                                      : std::integral<T>     ? "integer"
                                                             : "text";
template <typename T>
constexpr std::string_view kSqlType<std::optional<T>> = kSqlType<T>;

// kAlways: a row is inserted with its values. kLater: they may be null until an update. Optional
// fields may always be null.
enum class Presence { kAlways, kLater };

template <Fields T>
std::string columns_of(Presence presence = Presence::kAlways) {
  std::vector<std::string> columns;
  const T defaults;
  T::visit_fields(defaults, [&]<typename Member>(const char* name, const Member&, auto&&...) {
    const bool may_be_null = is_optional<Member> || presence == Presence::kLater;
    columns.push_back(
        fmt::format("{} {}{}", name, kSqlType<Member>, may_be_null ? "" : " not null"));
  });
  return fmt::format("{}", fmt::join(columns, ",\n  "));
}

std::string event_tables() {
  std::string sql;
  visit_event_tables([&]<typename Body>(std::type_identity<Body>) {
    sql += fmt::format(kEvents, fmt::arg("table", event_table<Body>.name),
                       fmt::arg("event", columns_of<Recorded<Body>>()),
                       fmt::arg("number", event_table<Body>.number));
  });
  return sql;
}

std::string comparison_of_every_run() {
  return fmt::format(kComparison, fmt::arg("figures", field_columns<AttemptSummary>("", "s.")));
}

std::string comparison_per_rank_of(const std::string& comparison) {
  return fmt::format(kComparisonPerRank, fmt::arg("comparison", comparison),
                     fmt::arg("rank_figures", field_columns<RankSummary>("", "k.")));
}

}  // namespace

std::string comparison_rows(Listed listed) {
  if (listed == Listed::kNow) return "comparison";
  return fmt::format("({} order by r.experiment, r.position, r.family_value, r.current desc, r.id)",
                     comparison_of_every_run());
}

std::string comparison_per_rank_rows(Listed listed) {
  if (listed == Listed::kNow) return "comparison_per_rank";
  return fmt::format("({} order by c.experiment, c.run, k.rank)",
                     comparison_per_rank_of("(" + comparison_of_every_run() + ")"));
}

std::string cut_short_statuses() {
  const auto names = kCutShort | std::views::transform(name_of<RunStatus>);
  return fmt::format("('{}')", fmt::join(names, "', '"));
}

std::string schema() {
  return fmt::format(kSchema, fmt::arg("attempt_start", columns_of<AttemptStart>()),
                     fmt::arg("run_started", columns_of<RunStarted>(Presence::kLater)),
                     fmt::arg("rank_summary", columns_of<RankSummary>()),
                     fmt::arg("attempt_summary", columns_of<AttemptSummary>()),
                     fmt::arg("events", event_tables()), fmt::arg("job", columns_of<JobRecord>()),
                     fmt::arg("job_task", columns_of<JobTask>()),
                     fmt::arg("cut_short", cut_short_statuses()),
                     fmt::arg("comparison", comparison_of_every_run()),
                     fmt::arg("comparison_per_rank", comparison_per_rank_of("comparison")));
}

}  // namespace fsdp
