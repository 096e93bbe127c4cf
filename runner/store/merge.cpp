#include "runner/store/merge.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "contract/text/config_error.h"
#include "runner/store/database.h"
#include "runner/store/merge_source.h"
#include "runner/store/results_database.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/store.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Whether a value may stand in a column that is declared as `type`.
bool is_of_type(const SqlValue& value, const std::string& type) {
  if (std::holds_alternative<std::monostate>(value)) return true;  // the column says whether it may
  if (type == "text") return std::holds_alternative<std::string>(value);
  if (std::holds_alternative<int64_t>(value)) return true;
  return type == "real" && std::holds_alternative<double>(value);
}

// The rows of a source's table on their way into the table of the same name and columns, where they
// replace those with their keys.
class TableCopy {
 public:
  TableCopy(Database& from, Database& into, const std::string& table) : from_(from), table_(table) {
    Statement(into, "select name, lower(type) from pragma_table_info(?)")
        .query(
            [&](Statement& row) {
              columns_.push_back(row.next<std::string>());
              types_.push_back(row.next<std::string>());
            },
            table);
    for (const std::string& column : columns_) {
      names_ += (names_.empty() ? "" : ", ") + column;
      parameters_ += parameters_.empty() ? "?" : ", ?";
    }
    select_ = "select " + names_ + " from " + table;
    insert_.emplace(
        into, "insert or replace into " + table + " (" + names_ + ") values (" + parameters_ + ")");
  }

  // `change(column, value)` is called for the values of a row.
  template <typename Change>
  void run(const Change& change) {
    std::vector<SqlValue> values(columns_.size());
    Statement(from_, select_).query([&](Statement& row) {
      for (size_t i = 0; i < columns_.size(); ++i) {
        values[i] = row.next<SqlValue>();
        if (!is_of_type(values[i], types_[i])) {
          throw std::runtime_error("is damaged: the column " + columns_[i] + " of its table " +
                                   table_ + " holds something else than " + types_[i]);
        }
        change(columns_[i], values[i]);
      }
      insert_->run(values);
    });
  }

 private:
  Database& from_;
  std::string table_;
  std::vector<std::string> columns_, types_;
  std::string names_, parameters_, select_;
  std::optional<Statement> insert_;
};

// Of the tables that say something of runs, all but those of jobs, which only the runner that
// submitted them can follow.
std::vector<std::string> tables_of_runs(Database& database) {
  std::vector<std::string> tables;
  Statement(database,
            "select m.name from sqlite_master m join pragma_table_info(m.name) c "
            "where m.type = 'table' and c.name = 'run' and m.name <> 'job_tasks'")
      .query([&](Statement& row) { tables.push_back(row.next<std::string>()); });
  return tables;
}

std::string joined_name(const std::string& source, const std::string& name) {
  return name.empty() ? source : source + '/' + name;
}

bool is_within(const path& folder, const path& parent) {
  const path relative = folder.lexically_relative(parent);
  return !relative.empty() && *relative.begin() != "..";
}

// One source's database on its way into another.
class Merge {
 public:
  Merge(Database& from, Database& into, const MergeSource& source, const path& results)
      : from_(from),
        into_(into),
        source_(source),
        // What a run's folder is relative to.
        prefix_(std::filesystem::relative(std::filesystem::canonical(source.results),
                                          std::filesystem::canonical(results))) {}

  MergedSource run() {
    require_same_place();
    MergedSource merged;
    merged.experiments = merge_experiments();
    require_equal_texts();
    TableCopy(from_, into_, "experiment_texts").run([](const std::string&, SqlValue&) {});
    match_runs(merged);
    for (const std::string& table : tables_of_runs(into_)) {
      Statement remove(into_, "delete from " + table + " where run = ?");
      for (const auto& [from, into] : runs_) remove.run(into);
      TableCopy(from_, into_, table).run([&](const std::string& column, SqlValue& value) {
        if (column == "run") value = run_numbered(std::get<int64_t>(value), table);
      });
    }
    require_readable();
    return merged;
  }

 private:
  std::string experiment_name(const std::string& name) const {
    return joined_name(source_.name, name);
  }

  // Another folder may be called by the same name.
  void require_same_place() {
    Statement(into_,
              "select r.experiment, r.folder from runs r "
              "join experiments e on e.name = r.experiment where e.source = ?")
        .query(
            [&](Statement& row) {
              const std::string experiment = row.next<std::string>();
              const path folder = row.next<path>();
              if (!is_within(folder, prefix_)) refuse_other_place(experiment, folder);
            },
            source_.name);
    // What the source has merged lies elsewhere, but each run where it was.
    Statement known(into_, "select folder from runs where (experiment, point, hash) = (?, ?, ?)");
    Statement(from_,
              "select r.experiment, r.point, r.hash, r.folder from runs r "
              "join experiments e on e.name = r.experiment where e.source <> ''")
        .query([&](Statement& row) {
          const std::string experiment = experiment_name(row.next<std::string>());
          const std::string point = row.next<std::string>();
          const auto folder = known.value<path>(experiment, point, row.next<std::string>());
          if (folder && *folder != folder_here(row.next<path>())) {
            refuse_other_place(experiment, *folder);
          }
        });
  }

  [[noreturn]] void refuse_other_place(const std::string& experiment, const path& folder) const {
    throw ConfigError(
        "", "",
        into_.file().string() + " has runs of '" + source_.name + "' from another place, " +
            folder.string() + "; give the source another name: NAME=" + source_.results.string() +
            "; or, if it is the same one that was moved, let go of them first: fsdp-run prune " +
            experiment);
  }

  path folder_here(const path& folder) const { return (prefix_ / folder).lexically_normal(); }

  int64_t merge_experiments() {
    int64_t experiments = 0;
    Statement source_of(into_, "select source from experiments where name = ?");
    Statement(from_, "select name, source from experiments").query([&](Statement& row) {
      const std::string name = experiment_name(row.next<std::string>());
      const std::string source = joined_name(source_.name, row.next<std::string>());
      if (source_of.value<std::string>(name).value_or(source) != source) {
        throw ConfigError(
            "", "",
            into_.file().string() + " has an experiment '" + name +
                "' of its own; give the source another name: NAME=" + source_.results.string());
      }
      ++experiments;
    });
    TableCopy(from_, into_, "experiments").run([&](const std::string& column, SqlValue& value) {
      if (column != "name" && column != "source") return;
      value = joined_name(source_.name, std::get<std::string>(value));
    });
    return experiments;
  }

  // The numbers, here, of the source's runs.
  void match_runs(MergedSource& merged) {
    // All of the source's experiments, also those that it has no more.
    Statement(into_,
              "update runs set current = 0 where experiment in "
              "(select name from experiments where instr(source || '/', ? || '/') = 1)")
        .run(source_.name);
    Statement known(into_, "select id from runs where experiment = ? and point = ? and hash = ?");
    int64_t last =
        Statement(into_, "select coalesce(max(id), 0) from runs").value<int64_t>().value();
    Statement(from_, "select id, experiment, point, hash from runs order by id")
        .query([&](Statement& row) {
          const auto id = row.next<int64_t>();
          const std::string experiment = experiment_name(row.next<std::string>());
          const std::string point = row.next<std::string>();
          const auto found = known.value<int64_t>(experiment, point, row.next<std::string>());
          runs_[id] = found ? *found : ++last;
          ++merged.runs;
          merged.new_runs += found ? 0 : 1;
        });
    TableCopy(from_, into_, "runs").run([&](const std::string& column, SqlValue& value) {
      if (column == "id") value = run_numbered(std::get<int64_t>(value), "runs");
      if (column == "experiment") value = experiment_name(std::get<std::string>(value));
      if (column == "folder") {
        value = folder_here(std::get<std::string>(value)).string();
      }
    });
  }

  int64_t run_numbered(int64_t number, const std::string& table) const {
    const auto found = runs_.find(number);
    if (found != runs_.end()) return found->second;
    throw std::runtime_error("is damaged: its table " + table + " names the run " +
                             std::to_string(number) + ", which is not there");
  }

  // A text of the digest may be there already, of another experiment.
  void require_equal_texts() {
    Statement known(into_, "select text from experiment_texts where digest = ?");
    Statement(from_, "select digest, text from experiment_texts").query([&](Statement& row) {
      const std::string digest = row.next<std::string>();
      const std::string text = row.next<std::string>();
      if (known.value<std::string>(digest).value_or(text) == text) return;
      throw std::runtime_error("holds another text of the digest " + digest + " than " +
                               into_.file().string());
    });
  }

  // One row that cannot be read would take every report down.
  void require_readable() {
    Statement(from_, "select name from experiments").query([&](Statement& row) {
      const std::string name = experiment_name(row.next<std::string>());
      read<ComparisonRow>(std::string(kComparisonRows) + " where experiment = ?", name);
      read<RankRow>("comparison_per_rank where experiment = ?", name);
      read<StatusRow>("statuses where experiment = ?", name);
      read<AttemptRecord>("attempts where run in (select id from runs where experiment = ?)", name);
      Statement(into_, "select status from runs where experiment = ?")
          .query([](Statement& run) { run.next<RunStatus>(); }, name);
      Statement(
          into_,
          "select end_kind from ranks where run in (select id from runs where experiment = ?)")
          .query([](Statement& rank) { rank.next<RankEndKind>(); }, name);
    });
  }

  template <typename Row>
  void read(const std::string& rows, const std::string& experiment) {
    Statement(into_, "select " + field_columns<Row>() + " from " + rows)
        .query([](Statement& row) { row.next<Row>(); }, experiment);
  }

  Database& from_;
  Database& into_;
  const MergeSource& source_;
  path prefix_;
  std::map<int64_t, int64_t> runs_;  // by the source's number
};

// Names the source in an error that does not.
template <typename Work>
auto of_source(const MergeSource& source, const Work& work) {
  try {
    return work();
  } catch (const ResultsUnavailable&) {
    throw;
  } catch (const std::exception& error) {
    const std::string name = (source.results / "results.sqlite").string();
    const std::string what = error.what();
    const bool is_named = what.find(source.results.string()) != std::string::npos;
    throw ConfigError(is_named ? "" : name, "", what);
  }
}

}  // namespace

std::vector<MergedSource> merge_results(const std::filesystem::path& results,
                                        std::span<const MergeSource> sources) {
  std::vector<Database> copies;  // nothing is created before all of them are sound
  for (const MergeSource& source : sources) {
    copies.push_back(of_source(source, [&] { return sound_copy(source); }));
  }
  Database into = open_results(results, StoreUse::kCreate);
  std::vector<MergedSource> merged;
  Transaction transaction(into);
  into.execute("pragma defer_foreign_keys = on");
  for (size_t i = 0; i < sources.size(); ++i) {
    merged.push_back(
        of_source(sources[i], [&] { return Merge(copies[i], into, sources[i], results).run(); }));
  }
  transaction.commit();
  return merged;
}

}  // namespace fsdp
