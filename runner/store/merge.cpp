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
#include "base/text/config_error.h"
#include "base/text/utf8.h"
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

// With another value, a row of a report would be unreadable or absurd.
struct ColumnRule {
  std::string name;
  std::string forbidden;  // a condition of SQL
  const char* allowed;
};

ColumnRule rule_of(const std::string& name, const std::string& type) {
  if (name == "spec" || name == "environment") {
    return {name,
            fmt::format("{0} <> '' and coalesce(iif(json_valid({0}), json_type({0}), '') <> "
                        "'object', 1)",
                        name),
            "a JSON object"};
  }
  if (type != "integer" && type != "real") {
    return {name, fmt::format("typeof({}) not in ('text', 'null')", name), "text"};
  }
  const Limits& limits = *std::ranges::find_if(
      kLimits, [&](const Limits& each) { return name.find(each.part) != name.npos; });
  return {name,
          fmt::format("{0} is not null and (typeof({0}) not in ('integer', '{1}') or {0} not "
                      "between {2})",
                      name, type, limits.range),
          limits.allowed};
}

// Refuses a table with a forbidden value. `key` is the column with the run's number.
void require_allowed_values(Database& database, const std::string& table, const char* key) {
  std::vector<ColumnRule> rules;
  // This includes the columns that SQLite computes from a specification.
  Statement columns(database, "select name, lower(type) from pragma_table_xinfo(?)");
  for (const auto& [name, type] : columns.rows<std::string, std::string>(table)) {
    rules.push_back(rule_of(name, type));
  }
  std::string first_broken = "case";
  for (size_t i = 0; i < rules.size(); ++i) {
    first_broken += fmt::format(" when {} then {}", rules[i].forbidden, i);
  }
  const auto found =
      Statement(database, fmt::format("select {}, {} end as rule from {} where rule is not null "
                                      "limit 1",
                                      key, first_broken, table))
          .value<int64_t, size_t>();
  if (!found) return;
  const auto& [run, rule] = *found;
  const auto& [column, forbidden, allowed] = rules[rule];
  constexpr int kLongestText = 60;
  const auto value =
      Statement(database,
                fmt::format("select iif(typeof({0}) = 'text', '''' || substr({0}, 1, {4}) || '''', "
                            "{0}) from {1} where {2} = ? and ({3}) limit 1",
                            column, table, key, forbidden, kLongestText))
          .value<std::string>(run);
  const auto [experiment, point] =
      Statement(database, "select experiment, point from runs where id = ?")
          .value<std::string, std::string>(run)
          .value();
  throw std::runtime_error(fmt::format(
      "its run {}, '{}' of the experiment '{}', has {} as {} in its table {}; allowed: {}; "
      "remove the run there with `fsdp-run prune {}`, or run it again with --rerun",
      run, visible_line(point), visible_line(experiment), visible_line(value.value_or("")), column,
      table, allowed, run));
}

// A query that finds nothing in a sound database, and the problem for a text that it finds.
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
    // Runs that the source has merged lie elsewhere, and are only ever read.
    SoundnessRule{"select folder from runs r join experiments e on e.name = r.experiment "
                  "where e.source = '' and (folder = '' or folder like '/%' "
                  "  or '/' || folder || '/' like '%/../%') limit 1",
                  "has a run whose folder lies outside of its results: '{}'"},
    SoundnessRule{"select '' from runs where ranks not between 1 and 1000000 limit 1",
                  "has runs of no or endless ranks"},
    SoundnessRule{"select '' from ranks k join runs r on r.id = k.run "
                  "where k.rank not between 0 and r.ranks - 1 limit 1",
                  "has ranks that their runs do not have"},
    SoundnessRule{"select '' from attempts where attempt not between 1 and 1000000 limit 1",
                  "has attempts that are not numbered from 1"},
};

// Throws std::runtime_error with the first problem.
void require_sound(Database& database) {
  require_own_views(database);
  for (const SoundnessRule& rule : kSoundnessRules) {
    const auto found = Statement(database, rule.query).value<std::string>();
    if (found) throw std::runtime_error(fmt::format(fmt::runtime(rule.problem), *found));
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
    require_own_place();
    require_other_names_nowhere();
    require_equal_texts();
    copy_experiments();
    copy_runs();
    require_readable();
    into_.execute("drop table temp.numbered; drop table temp.owner");
    return merged;
  }

 private:
  std::string name_here(const std::string& name) const {
    return name.empty() ? source_.name : source_.name + '/' + name;
  }

  // Makes a table of the source's runs with their numbers, names and folders here.
  MergedSource number_runs() {
    into_.execute(
        "create temp table owner (name text);"
        "create temp table numbered (there integer primary key, run integer, experiment text, "
        "source text, folder text)");
    Statement(into_, "insert into owner values (?)").run(source_.name);
    MergedSource merged;
    merged.experiments =
        Statement(into_, "select count(*) from source.experiments").value<int64_t>().value();
    Statement known(into_, "select id from main.runs where (experiment, point, hash) = (?, ?, ?)");
    Statement number(into_, "insert into numbered values (?, ?, ?, ?, ?)");
    auto last = Statement(into_, "select coalesce(max(id), 0) from main.runs").value<int64_t>();
    Statement runs(into_,
                   "select r.id, r.experiment, r.point, r.hash, r.folder, e.source "
                   "from source.runs r join source.experiments e on e.name = r.experiment "
                   "order by r.id");
    for (const auto& [id, experiment, point, hash, folder, source] :
         runs.rows<int64_t, std::string, std::string, std::string, path, std::string>()) {
      const auto found = known.value<int64_t>(name_here(experiment), point, hash);
      number.run(id, found ? *found : ++*last, name_here(experiment), name_here(source),
                 (prefix_ / folder).lexically_normal());
      ++merged.runs;
      merged.new_runs += found ? 0 : 1;
    }
    return merged;
  }

  // Refuses a source without runs, unless earlier merges brought some, which then leave the list.
  void require_runs(const MergedSource& merged) {
    if (merged.runs > 0) return;
    const auto here = Statement(into_, "select 1 from main.runs where experiment in " + brought())
                          .value<int64_t>(source_.name);
    if (!here) throw std::runtime_error("holds no runs");
  }

  // Returns SQL for the experiments that merges of the source's name have brought.
  static std::string brought() {
    return "(select name from main.experiments where instr(source || '/', ? || '/') = 1)";
  }

  // Refuses a source if runs merged under its name came from another folder.
  void require_own_place() {
    Statement here(into_,
                   "select r.experiment, r.folder from main.runs r "
                   "join main.experiments e on e.name = r.experiment where e.source = ?");
    for (const auto& [experiment, folder] : here.rows<std::string, path>(source_.name)) {
      const path within = folder.lexically_relative(prefix_);
      if (within.empty() || *within.begin() == "..") refuse_other_place(experiment, folder);
    }
    // Runs that the source has merged lie elsewhere, but each must lie where it was.
    const auto moved = Statement(into_,
                                 "select n.experiment, r.folder from numbered n "
                                 "join main.runs r on r.id = n.run "
                                 "where n.source <> ? and r.folder <> n.folder limit 1")
                           .value<std::string, path>(source_.name);
    if (moved) std::apply([&](const auto&... found) { refuse_other_place(found...); }, *moved);
  }

  [[noreturn]] void refuse_other_place(const std::string& experiment, const path& folder) const {
    throw ConfigError(
        "", "",
        fmt::format("{} has runs of '{}' from another place, {}; give the source "
                    "another name: NAME={}; or, if it is the same one that was moved, "
                    "let go of them first: fsdp-run prune {}",
                    into_name_, source_.name, folder.string(), source_.results.string(),
                    experiment));
  }

  // Refuses runs that were merged under another source's name: each run may be there only once.
  void require_other_names_nowhere() {
    const auto found = Statement(into_,
                                 "select n.folder, r.experiment from numbered n "
                                 "join main.runs r on r.folder = n.folder "
                                 "join main.experiments e on e.name = r.experiment "
                                 "where e.source <> n.source limit 1")
                           .value<std::string, std::string>();
    if (!found) return;
    const auto& [folder, experiment] = *found;
    throw ConfigError(
        "", "",
        fmt::format("{} has the run in {} already, in '{}', and would have it "
                    "twice; leave {} out, or let go of the others first: "
                    "fsdp-run prune {}",
                    into_name_, folder, experiment, source_.results.string(), experiment));
  }

  // Another experiment may have brought a text with the same digest.
  void require_equal_texts() {
    const auto digest = Statement(into_,
                                  "select s.digest from source.experiment_texts s "
                                  "join main.experiment_texts t on t.digest = s.digest "
                                  "where t.text <> s.text limit 1")
                            .value<std::string>();
    if (!digest) return;
    throw std::runtime_error("holds another text of the digest " + *digest + " than " + into_name_);
  }

  void copy_experiments() {
    Statement source_of(into_, "select source from main.experiments where name = ?");
    for (const auto& [name, source] :
         Statement(into_, "select name, source from source.experiments")
             .rows<std::string, std::string>()) {
      const std::string own = name_here(source);
      if (source_of.value<std::string>(name_here(name)).value_or(own) == own) continue;
      throw ConfigError("", "",
                        fmt::format("{} has an experiment '{}' of its own; give the source another "
                                    "name: NAME={}",
                                    into_name_, name_here(name), source_.results.string()));
    }
    const auto here = [](const std::string& name) {
      return "(select name from owner) || iif(s." + name + " = '', '', '/' || s." + name + ")";
    };
    copy_table(into_, "source", "main", "experiments",
               {{"name", here("name")}, {"source", here("source")}});
    copy_table(into_, "source", "main", "experiment_texts");
  }

  void copy_runs() {
    // This covers all of the source's experiments, even those that it no longer has.
    Statement(into_, "update main.runs set current = 0 where experiment in " + brought())
        .run(source_.name);
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

  // Reads every row, because one unreadable row would make every report fail.
  void require_readable() {
    const std::string of_experiment = " where experiment = ?";
    const std::string of_runs = " where run in (select id from runs where experiment = ?)";
    for (const std::string& name :
         Statement(into_, "select name from source.experiments").rows<std::string>()) {
      read<ComparisonRow>(select<ComparisonRow>(comparison_rows(Listed::kEver) + of_experiment),
                          name);
      read<RankRow>(select<RankRow>(comparison_per_rank_rows(Listed::kEver) + of_experiment), name);
      read<StatusRow>(select<StatusRow>("statuses" + of_experiment), name);
      read<AttemptRecord>(select<AttemptRecord>("attempts" + of_runs), name);
      read<RunStatus>("select status from runs" + of_experiment, name);
      read<RankEndKind>("select end_kind from ranks" + of_runs, name);
    }
  }

  template <typename Row>
  void read(const std::string& sql, const std::string& experiment) {
    Statement(into_, sql).rows<Row>(name_here(experiment));
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

// A source to merge, the copy of its database, and the outcome so far.
struct Candidate {
  const MergeSource& source;
  path copy;
  MergedSource merged{};
};

void merge_all(std::vector<Candidate>& candidates, Database& into, const path& results) {
  for (auto& [source, copy, merged] : candidates) {
    if (!merged.skipped.empty()) continue;
    try {
      const AttachedDatabase attached(into, copy, "source");
      Transaction transaction(into);
      merged = Merge(into, source, results).run();
      transaction.commit();
    } catch (const ResultsUnavailable&) {
      throw;
    } catch (const std::exception& error) {
      merged = {.skipped = reason_to_skip(source, error)};
    }
  }
}

// Skips sources that cannot be merged even into an empty database.
void try_all(std::vector<Candidate>& candidates, const path& results) {
  Database trial(Database::kTemporary);
  migrate(trial);
  merge_all(candidates, trial, results);
}

}  // namespace

std::vector<MergedSource> merge_results(const std::filesystem::path& results,
                                        std::span<const MergeSource> sources) {
  const ScratchFolder copies;
  std::vector<Candidate> candidates;
  for (const MergeSource& source : sources) {
    Candidate& candidate = candidates.emplace_back(
        Candidate{source, copies.path() / std::to_string(candidates.size())});
    try {
      copy_source(source, results, candidate.copy);
    } catch (const std::exception& error) {
      candidate.merged = {.skipped = reason_to_skip(source, error)};
    }
  }
  std::error_code not_there;
  const bool is_new = !std::filesystem::exists(results / "results.sqlite", not_there);
  if (is_new) try_all(candidates, results);
  const auto is_left = [](const Candidate& each) { return each.merged.skipped.empty(); };
  if (std::ranges::any_of(candidates, is_left)) {
    Database into = open_results(results, StoreUse::kCreate);
    merge_all(candidates, into, results);
  }
  std::vector<MergedSource> merged;
  for (Candidate& candidate : candidates) merged.push_back(std::move(candidate.merged));
  return merged;
}

}  // namespace fsdp
