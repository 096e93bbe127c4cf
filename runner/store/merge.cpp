#include "runner/store/merge.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "base/files/digest.h"
#include "base/files/scratch_folder.h"
#include "base/system/program.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/run_spec_json.h"
#include "runner/store/results_database.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/schema.h"
#include "runner/store/store.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// The numbers that a run can have in columns with `part` in their names.
struct Limits {
  std::string_view part;
  const char* range;  // of SQL
  const char* allowed;
};

constexpr std::array kLimits = {
    Limits{"_unix_ms", "0 and 253402300799999", "a time from 1970 to 9999"},
    Limits{"_time_ms", "0 and 1e15", "0 to 1e15 ms"},
    // A clock that is set back makes energy negative. A loss may be any value of fp32.
    Limits{"energy", "-1e39 and 1e39", "-1e39 to 1e39"},
    Limits{"loss", "-1e39 and 1e39", "-1e39 to 1e39"},
    Limits{"temperature", "-1e39 and 1e39", "-1e39 to 1e39"},
    Limits{"exit_code", "-1e39 and 1e39", "-1e39 to 1e39"},
    Limits{"", "0 and 1e39", "0 to 1e39"},
};

// Returns a condition of SQL for a forbidden value of the column, and the allowed values. A
// forbidden value would make a row of a report unreadable or absurd.
std::pair<std::string, const char*> rule_of(const std::string& column, const std::string& type) {
  if (column == "spec" || column == "environment") {
    return {"value <> '' and (not json_valid(value) or json_type(value) <> 'object')",
            "a JSON object"};
  }
  if (type != "integer" && type != "real") {
    return {"typeof(value) not in ('text', 'null')", "text"};
  }
  const Limits& limits = *std::ranges::find_if(
      kLimits, [&](const Limits& each) { return column.find(each.part) != column.npos; });
  return {fmt::format("typeof(value) not in ('integer', '{}', 'null') or value not between {}",
                      type, limits.range),
          limits.allowed};
}

// Refuses a table with a forbidden value. `key` is the column with the run's number.
void require_allowed_values(Database& database, const std::string& table, const char* key) {
  constexpr int kLongestText = 60;
  Statement columns(database, "select name, lower(type) from pragma_table_xinfo(?)");
  for (const auto& [column, type] : columns.rows<std::string, std::string>(table)) {
    const auto [forbidden, allowed] = rule_of(column, type);
    const auto found =
        Statement(database,
                  fmt::format("select id, point, experiment, iif(typeof(value) = 'text', "
                              "'''' || substr(value, 1, {}) || '''', value) "
                              "from (select {} as run, {} as value from {}) join runs on id = run "
                              "where {} limit 1",
                              kLongestText, key, column, table, forbidden))
            .value<int64_t, std::string, std::string, std::string>();
    if (!found) continue;
    const auto& [run, point, experiment, value] = *found;
    throw std::runtime_error(fmt::format(
        "its run {}, '{}' of the experiment '{}', has {} as {} in its table {}; allowed: {}; "
        "remove the run there with `fsdp-run prune {}`, or run it again with --rerun",
        run, visible_line(point), visible_line(experiment), visible_line(value), column, table,
        allowed, run));
  }
}

// A query that finds nothing in a sound database, and the message for a text that it finds.
struct SoundnessRule {
  const char* query;
  const char* problem;
};

constexpr std::array kSoundnessRules = {
    SoundnessRule{"select quick_check from pragma_quick_check(1) where quick_check <> 'ok'",
                  "is damaged: {}"},
    SoundnessRule{"select \"table\" || ' refer to rows of ' || parent "
                  "from pragma_foreign_key_check limit 1",
                  "is damaged: rows of its table {} that are not there"},
    // Runs that the source itself merged lie elsewhere, and are only ever read.
    SoundnessRule{"select folder from runs r join experiments e on e.name = r.experiment "
                  "where e.source = '' and (folder = '' or folder like '/%' "
                  "  or '/' || folder || '/' like '%/../%') limit 1",
                  "has a run whose folder lies outside of its results: '{}'"},
    SoundnessRule{
        "select '' from runs where spec ->> '$.strategy.ranks' not between 1 and 1000000 limit 1",
        "has runs whose number of ranks is not from 1 to 1000000"},
    SoundnessRule{"select '' from ranks k join runs r on r.id = k.run "
                  "where k.rank not between 0 and (r.spec ->> '$.strategy.ranks') - 1 limit 1",
                  "has ranks that their runs do not have"},
    SoundnessRule{"select '' from attempts where attempt not between 1 and 1000000 limit 1",
                  "has attempts that are not numbered from 1"},
};

template <typename Row>
void read(Database& database, const std::string& sql) {
  Statement(database, sql).rows<Row>();
}

// Throws std::runtime_error with the first problem.
void require_sound(Database& database) {
  require_own_schema(database);
  for (const auto& [query, problem] : kSoundnessRules) {
    const auto found = Statement(database, query).value<std::string>();
    if (found) throw std::runtime_error(fmt::format(fmt::runtime(problem), *found));
  }
  Statement texts(database, "select digest, text from experiment_texts");
  for (const auto& [digest, text] : texts.rows<std::string, std::string>()) {
    if (text_digest(text) == digest) continue;
    throw std::runtime_error("was changed: its text of the digest " + digest +
                             " has another digest");
  }
  require_allowed_values(database, "runs", "id");
  for (const std::string& table : tables_of_runs(database)) {
    if (table == "job_tasks") continue;
    const auto absent = Statement(database, "select run from " + table +
                                                " where run not in (select id from runs) limit 1")
                            .value<int64_t>();
    if (absent) {
      throw std::runtime_error(fmt::format(
          "is damaged: its table {} names the run {}, which is not there", table, *absent));
    }
    require_allowed_values(database, table, "run");
  }
  // Reads every row, because one unreadable row would make every report fail.
  Statement rows(database, select<StoredRow>(comparison_rows(Listed::kEver)));
  for (const auto& [row, spec] : rows.rows<StoredRow>()) {
    run_spec_from_json(spec, fmt::format("the specification of its run {}", row.run));
  }
  read<RankRow>(database, select<RankRow>(comparison_per_rank_rows(Listed::kEver)));
  read<StatusRow>(database, select<StatusRow>("statuses"));
  read<AttemptRecord>(database, select<AttemptRecord>("attempts"));
  read<RunStatus>(database, "select status from runs");
  read<RankEndKind>(database, "select end_kind from ranks");
}

void require_to_be_read(const path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw ConfigError(
        "", "",
        "there is no results.sqlite in " + file.parent_path().string() + " or its folder results");
  }
  if (access(file.c_str(), R_OK) != 0) {
    throw std::runtime_error("cannot be read: " + std::generic_category().message(errno));
  }
  if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(file) == 0) {
    throw std::runtime_error("is empty");
  }
}

// Writes a sound copy of the source's database, with the schema of this program. Only reads the
// source.
void copy_source(const MergeSource& source, const path& results, const path& copy_file) {
  const path file = source.results / "results.sqlite";
  require_to_be_read(file);
  std::error_code not_there;
  if (std::filesystem::equivalent(source.results, results, not_there)) {
    throw std::runtime_error("is the database to merge into; name another folder with --results");
  }
  require_mergeable(file);
  Database copy = Database::copy_of(file, copy_file);
  migrate(copy);
  require_sound(copy);
}

// The conditions for merging the attached database `source`. Each query finds nothing if its
// condition holds. Otherwise it finds a folder or a name, and an experiment; the problem describes
// them.
constexpr std::array kMergeRules = {
    // Runs that the source itself merged lie elsewhere, but each must lie where it did before.
    SoundnessRule{"select r.folder, r.experiment from main.runs r "
                  "join main.experiments e on e.name = r.experiment "
                  "where e.source = {name} and instr(r.folder, {prefix} || '/') <> 1 "
                  "union all select r.folder, n.experiment from numbered n "
                  "join main.runs r on r.id = n.run "
                  "where n.source <> {name} and r.folder <> n.folder",
                  "{into} has runs of '{source}' from another place, {found}; give the source "
                  "another name: NAME={results}; or, if it is the same source that was moved, "
                  "remove these runs first: fsdp-run prune {quoted}"},
    // Each run may be there only once.
    SoundnessRule{
        "select n.folder, r.experiment from numbered n "
        "join main.runs r on r.folder = n.folder "
        "join main.experiments e on e.name = r.experiment where e.source <> n.source",
        "{into} has the run in {found} already, in '{experiment}', and would have it twice; leave "
        "{results} out, or remove the others first: fsdp-run prune {quoted}"},
    // Another experiment may have brought a text with the same digest.
    SoundnessRule{"select s.digest, '' from source.experiment_texts s "
                  "join main.experiment_texts t on t.digest = s.digest where t.text <> s.text",
                  "holds another text of the digest {found} than {into}"},
    SoundnessRule{"select e.name, '' from source.experiments s "
                  "join main.experiments e on e.name = {name_here} where e.source <> {source_here}",
                  "{into} has an experiment '{found}' of its own; give the source another name: "
                  "NAME={results}"},
};

// Merges the attached database `source` into a database, within the caller's transaction.
class Merge {
 public:
  Merge(Database& into, const MergeSource& source, const path& results)
      : into_(into),
        source_(source),
        into_name_((results / "results.sqlite").string()),
        // The folders of runs are relative to this path.
        prefix_(std::filesystem::relative(
            std::filesystem::canonical(source.results),
            std::filesystem::weakly_canonical(std::filesystem::absolute(results)))) {}

  MergedSource run() {
    into_.execute("pragma defer_foreign_keys = on");
    MergedSource merged = number_runs();
    require_runs(merged);
    require_no_conflict();
    copy_experiments();
    copy_runs();
    into_.execute("drop table temp.numbered");
    return merged;
  }

 private:
  std::string text_of_sql(const std::string& text) {
    return Statement(into_, "select quote(?)").value<std::string>(text).value();
  }

  // Returns SQL for the name that an experiment or a source gets in into_. `column` is the SQL of
  // its name in the source.
  std::string name_here(const std::string& column) {
    return fmt::format("({0} || iif({1} = '', '', '/' || {1}))", text_of_sql(source_.name), column);
  }

  // Returns SQL for the experiments in into_ that merges under the source's name have brought.
  std::string brought() {
    return fmt::format(
        "(select name from main.experiments where instr(source || '/', {} || '/') = 1)",
        text_of_sql(source_.name));
  }

  // Makes the table `numbered`: each of the source's runs, with its number, names and folder in
  // into_.
  MergedSource number_runs() {
    into_.execute(
        "create temp table numbered (there integer primary key, run integer, experiment text, "
        "source text, folder text)");
    MergedSource merged;
    merged.experiments =
        Statement(into_, "select count(*) from source.experiments").value<int64_t>().value();
    Statement known(into_, "select id from main.runs where (experiment, point, hash) = (?, ?, ?)");
    Statement number(into_, "insert into numbered values (?, ?, ?, ?, ?)");
    auto last = Statement(into_, "select coalesce(max(id), 0) from main.runs").value<int64_t>();
    Statement runs(into_, fmt::format("select r.id, {}, r.point, r.hash, r.folder, {} "
                                      "from source.runs r "
                                      "join source.experiments e on e.name = r.experiment "
                                      "order by r.id",
                                      name_here("r.experiment"), name_here("e.source")));
    for (const auto& [id, experiment, point, hash, folder, source] :
         runs.rows<int64_t, std::string, std::string, std::string, path, std::string>()) {
      const auto found = known.value<int64_t>(experiment, point, hash);
      number.run(id, found ? *found : ++*last, experiment, source,
                 (prefix_ / folder).lexically_normal());
      ++merged.runs;
      merged.new_runs += found ? 0 : 1;
    }
    return merged;
  }

  // Refuses a source without runs, unless earlier merges brought runs. These then leave the list.
  void require_runs(const MergedSource& merged) {
    if (merged.runs > 0) return;
    const auto here =
        Statement(into_, "select 1 from main.runs where experiment in " + brought()).value<int>();
    if (!here) throw std::runtime_error("holds no runs");
  }

  void require_no_conflict() {
    for (const auto& [query, problem] : kMergeRules) {
      const auto found =
          Statement(into_,
                    fmt::format(fmt::runtime(query), fmt::arg("name", text_of_sql(source_.name)),
                                fmt::arg("prefix", text_of_sql(prefix_)),
                                fmt::arg("name_here", name_here("s.name")),
                                fmt::arg("source_here", name_here("s.source"))))
              .value<std::string, std::string>();
      if (!found) continue;
      throw std::runtime_error(fmt::format(
          fmt::runtime(problem), fmt::arg("into", into_name_), fmt::arg("source", source_.name),
          fmt::arg("results", source_.results.string()), fmt::arg("found", std::get<0>(*found)),
          fmt::arg("experiment", std::get<1>(*found)),
          fmt::arg("quoted", shell_quoted(std::get<1>(*found)))));
    }
  }

  void copy_experiments() {
    copy_table(into_, "source", "main", "experiments",
               {{"name", name_here("s.name")}, {"source", name_here("s.source")}});
    copy_table(into_, "source", "main", "experiment_texts");
  }

  void copy_runs() {
    // This covers all of the source's experiments, even those that it no longer has.
    into_.execute("update main.runs set current = 0 where experiment in " + brought());
    const auto numbered = [](const std::string& column, const std::string& run) {
      return "(select " + column + " from numbered where there = s." + run + ")";
    };
    copy_table(into_, "source", "main", "runs",
               {{"id", numbered("run", "id")},
                {"experiment", numbered("experiment", "id")},
                {"folder", numbered("folder", "id")}});
    for (const std::string& table : tables_of_runs(into_)) {
      if (table == "job_tasks") continue;  // only the runner that submitted them can follow jobs
      into_.execute("delete from main." + table + " where run in (select run from numbered)");
      copy_table(into_, "source", "main", table, {{"run", numbered("run", "run")}});
    }
  }

  Database& into_;
  const MergeSource& source_;
  std::string into_name_;
  path prefix_;
};

// Returns the message of `error`, with the source's name.
std::string reason_to_skip(const MergeSource& source, const std::exception& error) {
  constexpr std::string_view kOfCommandsThatRead = ", or choose another folder with --results";
  std::string reason = error.what();
  if (reason.ends_with(kOfCommandsThatRead)) {
    reason.resize(reason.size() - kOfCommandsThatRead.size());
  }
  const bool is_named = reason.find(source.results.string()) != std::string::npos;
  return is_named ? reason : (source.results / "results.sqlite").string() + ": " + reason;
}

// Merges the sound copy of the source's database.
MergedSource merge_copy(const path& copy, const MergeSource& source, Database& into,
                        const path& results) try {
  const AttachedDatabase attached(into, copy, "source");
  Transaction transaction(into);
  const MergedSource merged = Merge(into, source, results).run();
  transaction.commit();
  return merged;
} catch (const ResultsUnavailable&) {
  throw;
} catch (const std::exception& error) {
  return {.skipped = reason_to_skip(source, error)};
}

// Merges into an empty temporary database if the results have none. This keeps a source that cannot
// be merged from creating a database.
MergedSource try_merge(const path& copy, const MergeSource& source, const path& results) {
  std::error_code not_there;
  if (std::filesystem::exists(results / "results.sqlite", not_there)) return {};
  Database trial(Database::kTemporary);
  migrate(trial);
  return merge_copy(copy, source, trial, results);
}

}  // namespace

std::vector<MergedSource> merge_results(const path& results, std::span<const MergeSource> sources) {
  std::optional<Database> into;
  std::vector<MergedSource> merged;
  for (const MergeSource& source : sources) {
    const ScratchFolder folder;
    const path copy = folder.path() / "results.sqlite";
    MergedSource& outcome = merged.emplace_back();
    try {
      copy_source(source, results, copy);
      if (!into) outcome = try_merge(copy, source, results);
    } catch (const std::exception& error) {
      outcome.skipped = reason_to_skip(source, error);
    }
    if (!outcome.skipped.empty()) continue;
    if (!into) into = open_results(results, StoreUse::kCreate);
    outcome = merge_copy(copy, source, *into, results);
  }
  return merged;
}

}  // namespace fsdp
