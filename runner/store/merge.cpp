#include "runner/store/merge.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "contract/record/digest.h"
#include "contract/text/config_error.h"
#include "runner/store/database.h"
#include "runner/store/migrations.h"
#include "runner/store/plausible_figures.h"
#include "runner/store/results_database.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/schema.h"
#include "runner/store/store.h"
#include "runner/store/table_copy.h"

namespace fsdp {
namespace {

using std::filesystem::path;

std::string joined_name(const std::string& source, const std::string& name) {
  return name.empty() ? source : source + '/' + name;
}

bool is_within(const path& folder, const path& parent) {
  const path relative = folder.lexically_relative(parent);
  return !relative.empty() && *relative.begin() != "..";
}

// Merges one source's database into another.
class Merge {
 public:
  Merge(Database& from, Database& into, const MergeSource& source, const path& results)
      : from_(from),
        into_(into),
        source_(source),
        into_name_((results / "results.sqlite").string()),
        // The folders of runs are relative to this path.
        prefix_(std::filesystem::relative(
            std::filesystem::canonical(source.results),
            std::filesystem::weakly_canonical(std::filesystem::absolute(results)))) {}

  MergedSource run() {
    require_runs();
    require_same_place();
    require_other_names_nowhere();
    MergedSource merged;
    merged.experiments = merge_experiments();
    require_equal_texts();
    copy_table(from_, into_, "experiment_texts");
    match_runs(merged);
    for (const std::string& table : tables_of_runs(into_)) {
      if (table == "job_tasks") continue;  // only the runner that submitted them can follow jobs
      Statement remove(into_, "delete from " + table + " where run = ?");
      for (const auto& [from, into] : runs_) remove.run(into);
      copy_table(from_, into_, table, [&](const std::string& column, SqlValue& value) {
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

  // Refuses a source without runs, unless earlier merges brought some, which then leave the list.
  void require_runs() {
    if (Statement(from_, "select exists (select 1 from runs)").value<int64_t>() != 0) return;
    Statement here(into_,
                   "select exists (select 1 from runs r join experiments e on e.name = "
                   "r.experiment where instr(e.source || '/', ? || '/') = 1)");
    if (here.value<int64_t>(source_.name) == 0) throw std::runtime_error("holds no runs");
  }

  // Refuses a source if runs merged under its name came from another folder.
  void require_same_place() {
    Statement here(into_,
                   "select r.experiment, r.folder from runs r "
                   "join experiments e on e.name = r.experiment where e.source = ?");
    for (const auto& [experiment, folder] : here.rows<std::string, path>(source_.name)) {
      if (!is_within(folder, prefix_)) refuse_other_place(experiment, folder);
    }
    // Runs that the source has merged lie elsewhere, but each must lie where it was.
    Statement known(into_, "select folder from runs where (experiment, point, hash) = (?, ?, ?)");
    Statement merged(from_,
                     "select r.experiment, r.point, r.hash, r.folder from runs r "
                     "join experiments e on e.name = r.experiment where e.source <> ''");
    for (const auto& [name, point, hash, place] :
         merged.rows<std::string, std::string, std::string, path>()) {
      const std::string experiment = experiment_name(name);
      const auto folder = known.value<path>(experiment, point, hash);
      if (folder && *folder != folder_here(place)) refuse_other_place(experiment, *folder);
    }
  }

  // Refuses runs that were merged under another source's name: each run may be there only once.
  void require_other_names_nowhere() {
    Statement elsewhere(into_,
                        "select r.experiment from runs r join experiments e on e.name = "
                        "r.experiment where r.folder = ? and e.source <> ? limit 1");
    Statement runs(from_,
                   "select r.folder, e.source from runs r "
                   "join experiments e on e.name = r.experiment");
    for (const auto& [folder, source] : runs.rows<path, std::string>()) {
      const std::string here = folder_here(folder).string();
      const auto experiment = elsewhere.value<std::string>(here, joined_name(source_.name, source));
      if (!experiment) continue;
      throw ConfigError(
          "", "",
          fmt::format("{} has the run in {} already, in '{}', and would have it "
                      "twice; leave {} out, or let go of the others first: "
                      "fsdp-run prune {}",
                      into_name_, here, *experiment, source_.results.string(), *experiment));
    }
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

  path folder_here(const path& folder) const { return (prefix_ / folder).lexically_normal(); }

  int64_t merge_experiments() {
    Statement source_of(into_, "select source from experiments where name = ?");
    const auto experiments =
        Statement(from_, "select name, source from experiments").rows<std::string, std::string>();
    for (const auto& [name_there, source_there] : experiments) {
      const std::string name = experiment_name(name_there);
      const std::string source = joined_name(source_.name, source_there);
      if (source_of.value<std::string>(name).value_or(source) == source) continue;
      throw ConfigError("", "",
                        fmt::format("{} has an experiment '{}' of its own; give the source another "
                                    "name: NAME={}",
                                    into_name_, name, source_.results.string()));
    }
    copy_table(from_, into_, "experiments", [&](const std::string& column, SqlValue& value) {
      if (column != "name" && column != "source") return;
      value = joined_name(source_.name, std::get<std::string>(value));
    });
    return std::ssize(experiments);
  }

  // Gives each of the source's runs its number here.
  void match_runs(MergedSource& merged) {
    // This covers all of the source's experiments, even those that it no longer has.
    Statement(into_,
              "update runs set current = 0 where experiment in "
              "(select name from experiments where instr(source || '/', ? || '/') = 1)")
        .run(source_.name);
    Statement known(into_, "select id from runs where experiment = ? and point = ? and hash = ?");
    int64_t last =
        Statement(into_, "select coalesce(max(id), 0) from runs").value<int64_t>().value();
    Statement runs(from_, "select id, experiment, point, hash from runs order by id");
    for (const auto& [id, experiment, point, hash] :
         runs.rows<int64_t, std::string, std::string, std::string>()) {
      const auto found = known.value<int64_t>(experiment_name(experiment), point, hash);
      runs_[id] = found ? *found : ++last;
      ++merged.runs;
      merged.new_runs += found ? 0 : 1;
    }
    copy_table(from_, into_, "runs", [&](const std::string& column, SqlValue& value) {
      if (column == "id") value = run_numbered(std::get<int64_t>(value), "runs");
      if (column == "experiment") value = experiment_name(std::get<std::string>(value));
      if (column == "folder") value = folder_here(std::get<std::string>(value)).string();
    });
  }

  int64_t run_numbered(int64_t number, const std::string& table) const {
    const auto found = runs_.find(number);
    if (found != runs_.end()) return found->second;
    throw std::runtime_error(fmt::format(
        "is damaged: its table {} names the run {}, which is not there", table, number));
  }

  // Another experiment may have brought a text with the same digest.
  void require_equal_texts() {
    Statement known(into_, "select text from experiment_texts where digest = ?");
    Statement texts(from_, "select digest, text from experiment_texts");
    for (const auto& [digest, text] : texts.rows<std::string, std::string>()) {
      if (known.value<std::string>(digest).value_or(text) == text) continue;
      throw std::runtime_error("holds another text of the digest " + digest + " than " +
                               into_name_);
    }
  }

  // Reads every row, because one unreadable row would make every report fail.
  void require_readable() {
    const std::string of_experiment = " where experiment = ?";
    const std::string of_runs = " where run in (select id from runs where experiment = ?)";
    for (const std::string& name :
         Statement(from_, "select name from experiments").rows<std::string>()) {
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
    Statement(into_, sql).rows<Row>(experiment_name(experiment));
  }

  Database& from_;
  Database& into_;
  const MergeSource& source_;
  std::string into_name_;
  path prefix_;
  std::map<int64_t, int64_t> runs_;  // by the source's number
};

struct RowsThatMustNotBe {
  const char* rows;
  const char* problem;
};

constexpr std::array kRowsThatMustNotBe = {
    RowsThatMustNotBe{"runs where ranks not between 1 and 1000000",
                      "has runs of no or endless ranks"},
    RowsThatMustNotBe{
        "ranks k join runs r on r.id = k.run where k.rank not between 0 and r.ranks - 1",
        "has ranks that their runs do not have"},
    RowsThatMustNotBe{"attempts where attempt not between 1 and 1000000",
                      "has attempts that are not numbered from 1"},
};

void require_whole(Database& database) {
  const auto found = Statement(database, "pragma quick_check(1)").value<std::string>();
  if (found != "ok") throw std::runtime_error("is damaged: " + found.value_or(""));
}

void require_rows_referred_to(Database& database) {
  const auto found =
      Statement(database, "select \"table\", parent from pragma_foreign_key_check limit 1")
          .value<std::string, std::string>();
  if (!found) return;
  throw std::runtime_error(
      fmt::format("is damaged: rows of its table {} refer to rows of {} that are not there",
                  std::get<0>(*found), std::get<1>(*found)));
}

void require_true_digests(Database& database) {
  Statement texts(database, "select digest, text from experiment_texts");
  for (const auto& [digest, text] : texts.rows<std::string, std::string>()) {
    if (text_digest(text) == digest) continue;
    throw std::runtime_error("was changed: its text of the digest " + digest +
                             " has another digest");
  }
}

// Checks the source's own runs. Runs that it has merged lie elsewhere, and are only ever read.
void require_folders_within(Database& database) {
  Statement folders(database,
                    "select r.folder from runs r join experiments e on e.name = r.experiment "
                    "where e.source = ''");
  for (const path& folder : folders.rows<path>()) {
    const path normal = folder.lexically_normal();
    if (!normal.empty() && normal.is_relative() && *normal.begin() != "..") continue;
    throw std::runtime_error("has a run whose folder lies outside of its results: '" +
                             folder.string() + "'");
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

// Returns a migrated copy of the source's database that can be merged. Rows refer to existing rows,
// digests match their texts, and folders lie in the source. Numbers of ranks and attempts, and
// figures, are possible ones. Throws std::runtime_error with the first problem. Only reads the
// source.
Database sound_copy(const MergeSource& source, const path& results) {
  const path file = source.results / "results.sqlite";
  require_to_be_read(file);
  std::error_code not_there;
  if (std::filesystem::equivalent(source.results, results, not_there)) {
    throw std::runtime_error("is the database to merge into; name another folder with --results");
  }
  refuse_write_ahead_log(file);
  Database copy = Database::copy_of(file);
  require_ours(copy);
  require_whole(copy);
  migrate(copy);
  require_own_views(copy);
  require_rows_referred_to(copy);
  require_true_digests(copy);
  require_folders_within(copy);
  for (const RowsThatMustNotBe& forbidden : kRowsThatMustNotBe) {
    if (Statement(copy, std::string("select exists (select 1 from ") + forbidden.rows + ")")
            .value<int64_t>() != 0) {
      throw std::runtime_error(forbidden.problem);
    }
  }
  require_plausible_figures(copy);
  return copy;
}

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

// A source to merge, and the outcome so far.
struct Candidate {
  const MergeSource& source;
  std::optional<Database> copy{};  // none: skipped
  MergedSource merged{};

  void skip(const std::exception& error) {
    copy.reset();
    merged = {.skipped = reason_to_skip(source, error)};
  }
};

Candidate candidate_of(const MergeSource& source, const path& results) {
  Candidate candidate{.source = source};
  try {
    candidate.copy = sound_copy(source, results);
  } catch (const std::exception& error) {
    candidate.skip(error);
  }
  return candidate;
}

void merge_all(std::vector<Candidate>& candidates, Database& into, const path& results) {
  for (Candidate& candidate : candidates) {
    if (!candidate.copy) continue;
    try {
      Transaction transaction(into);
      into.execute("pragma defer_foreign_keys = on");
      candidate.merged = Merge(*candidate.copy, into, candidate.source, results).run();
      transaction.commit();
    } catch (const ResultsUnavailable&) {
      throw;
    } catch (const std::exception& error) {
      candidate.skip(error);
    }
  }
}

// Skips sources that cannot be merged even into an empty database.
void try_all(std::vector<Candidate>& candidates, const path& results) {
  Database trial("");  // SQLite's name for a database that goes when closed
  migrate(trial);
  merge_all(candidates, trial, results);
}

}  // namespace

std::vector<MergedSource> merge_results(const std::filesystem::path& results,
                                        std::span<const MergeSource> sources) {
  std::vector<Candidate> candidates;
  for (const MergeSource& source : sources) candidates.push_back(candidate_of(source, results));
  std::error_code not_there;
  const bool is_new = !std::filesystem::exists(results / "results.sqlite", not_there);
  if (is_new) try_all(candidates, results);
  const auto is_left = [](const Candidate& candidate) { return candidate.copy.has_value(); };
  if (std::ranges::any_of(candidates, is_left)) {
    Database into = open_results(results, StoreUse::kCreate);
    merge_all(candidates, into, results);
  }
  std::vector<MergedSource> merged;
  for (Candidate& candidate : candidates) merged.push_back(std::move(candidate.merged));
  return merged;
}

}  // namespace fsdp
