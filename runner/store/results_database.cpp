#include "runner/store/results_database.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>

#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/run_files.h"
#include "runner/store/schema.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr int64_t kApplicationId = 0x66736472;  // "fsdr"

[[noreturn]] void refuse_foreign(const path& file) {
  throw ConfigError(file.string(), "",
                    "is not a database of fsdp-run 0.1.0 or later; move it away, or choose another "
                    "folder with --results");
}

// The first bytes of a database file. They are read without SQLite, which would lock the file and
// may change it.
struct Header {
  int64_t user_version = 0;
  int64_t application_id = 0;
  uintmax_t page_bytes = 0;
  bool has_wal = false;

  bool is_ours() const { return application_id == kApplicationId && user_version > 0; }
};

int64_t big_endian(std::string_view bytes) {
  uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<int32_t>(number);
}

// nullopt: the file holds no database.
std::optional<Header> header_of(const path& file) {
  std::array<char, 100> bytes{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  const std::string_view header(bytes.data(), static_cast<size_t>(stream.gcount()));
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  if (header.size() < bytes.size() || !header.starts_with(kMagic)) return std::nullopt;
  const auto page_bytes = static_cast<uintmax_t>(big_endian(header.substr(16, 2)));
  return Header{.user_version = big_endian(header.substr(60, 4)),
                .application_id = big_endian(header.substr(68, 4)),
                .page_bytes = page_bytes == 1 ? 65536 : page_bytes,  // 65536 does not fit there
                .has_wal = header[18] == 2};
}

// True while a writer is at work, or after it was killed.
bool has_journal(const path& file) {
  std::error_code not_there;
  const uintmax_t bytes = std::filesystem::file_size(file.string() + "-journal", not_there);
  return !not_there && bytes > 0;
}

// Refuses a file that ends within a page. SQLite reads zeros there, and may miss a row.
void require_whole_pages(const path& file, const Header& header) {
  if (has_journal(file)) return;
  if (header.page_bytes == 0 || std::filesystem::file_size(file) % header.page_bytes == 0) return;
  throw IndexDamaged(file.string() +
                     ": is cut short, the end of its last page is missing; copy it once more, or "
                     "move it away");
}

// Adds to `database` the tables, indexes, columns and views of `schema` that it lacks.
void add_what_is_missing(Database& database, const std::string& schema) {
  Database whole(":memory:");
  whole.execute(schema);
  Statement objects(whole, "select type, name, sql from sqlite_master where sql is not null");
  Statement is_there(database, "select 1 from sqlite_master where (type, name) = (?, ?)");
  Statement has_column(database, "select 1 from pragma_table_xinfo(?) where name = ?");
  Statement columns(whole, "select name, type from pragma_table_xinfo(?)");
  for (const auto& [type, name, sql] : objects.rows<std::string, std::string, std::string>()) {
    if (type == "view") database.execute("drop view if exists " + name);
    if (!is_there.value<int>(type, name)) {
      database.execute(sql);
    } else if (type == "table") {
      for (const auto& [column, column_type] : columns.rows<std::string, std::string>(name)) {
        if (has_column.value<int>(name, column)) continue;
        database.execute(fmt::format("alter table {} add column {} {}", name, column, column_type));
      }
    }
  }
}

// Creates the file with the umask's permissions. SQLite itself lets nobody but the owner write.
// Ignores failures, because SQLite then reports the reason.
void make_with_umask(const path& file) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor >= 0) close(descriptor);
}

// Gives the journal the file's mode, as SQLite does when it opens one. If the file was read-only
// for a while, the journal still is, and the first write would fail.
void make_journal_writable(const path& file) {
  constexpr mode_t kMode = 0777;
  const path journal = file.string() + "-journal";
  struct stat of_file {
  }, of_journal{};
  if (stat(file.c_str(), &of_file) != 0 || lstat(journal.c_str(), &of_journal) != 0) return;
  const bool is_alike = (of_file.st_mode & kMode) == (of_journal.st_mode & kMode);
  if (!is_alike && S_ISREG(of_journal.st_mode)) chmod(journal.c_str(), of_file.st_mode & kMode);
}

// Throws ConfigError if a table, column or view of this program is missing. Throws it, too, if a
// view replaces a table or has other SQL: reading such a view might never end. Commits between two
// releases may have different schemas with the same version.
void require_own_schema(Database& database) {
  // Selects the name of each object, and its SQL if it is a view, else its type.
  const std::string made = "select name, iif(type = 'view', sql, type) from sqlite_master ";
  const auto columns_of = [](Database& of) {
    return Statement(of,
                     "select t.name, c.name from sqlite_master t join pragma_table_xinfo(t.name) c "
                     "where t.type = 'table' order by t.name, c.name")
        .rows<std::string, std::string>();
  };
  static const auto kOwn = [&] {
    Database own(":memory:");
    own.execute(schema());
    return std::pair(
        Statement(own, made + "where type in ('table', 'view')").rows<std::string, std::string>(),
        columns_of(own));
  }();
  const auto refuse = [&](const std::string& name) {
    const std::string problem =
        "its '" + name +
        "' is another one than this fsdp-run's; another commit of fsdp-run wrote the file, or "
        "another program changed it; use that fsdp-run, restore the file, or choose another folder "
        "with --results";
    if (has_run_files(database.file().parent_path())) throw IndexDamaged(problem);
    throw ConfigError(database.file().string(), "", problem);
  };
  // SQLite ignores the case of names.
  Statement of_name(database, made + "where lower(name) = ? and type in ('table', 'view')");
  for (const auto& [name, own] : kOwn.first) {
    const auto found = of_name.value<std::string, std::string>(name);
    if (!found || std::get<1>(*found) != own) refuse(name);
  }
  std::vector<std::tuple<std::string, std::string>> missing;
  std::ranges::set_difference(kOwn.second, columns_of(database), std::back_inserter(missing));
  for (const auto& [table, column] : missing) refuse(table + '.' + column);
}

Database made_ready(Database database) {
  try {
    migrate(database);
    require_own_schema(database);
    return database;
  } catch (const ConfigError&) {
    throw;
  } catch (const ResultsUnavailable&) {
    throw;
  } catch (const std::runtime_error& error) {  // its tables are not those of its version
    if (has_run_files(database.file().parent_path())) throw IndexDamaged(error.what());
    throw;
  }
}

}  // namespace

void check_results_path(const path& results) {
  constexpr size_t kLongestBytes = 512;  // SQLite's limit, for the journal's name
  const path file = std::filesystem::absolute(results) / "results.sqlite";
  const size_t bytes = file.native().size() + std::string_view("-journal").size();
  if (bytes <= kLongestBytes) return;
  throw ConfigError(
      "--results", "",
      "the folder's path is " + counted(static_cast<int64_t>(bytes - kLongestBytes), "byte") +
          " too long for SQLite; choose a folder with a shorter path: " + results.string());
}

void require_mergeable(const path& file) {
  if (!std::filesystem::is_regular_file(file)) return;
  const std::optional<Header> header = header_of(file);
  if (header && !header->is_ours()) refuse_foreign(file);
  if (!header || !header->has_wal) return;
  throw ConfigError(file.string(), "",
                    "another program has given it a write-ahead log; close that program, and let "
                    "fsdp-run take it away: fsdp-run report --results " +
                        file.parent_path().string());
}

Database temporary_index() { return made_ready(Database(Database::kTemporary)); }

bool has_run_files(const path& results) {
  std::error_code not_there;
  return std::filesystem::exists(lists_folder(results), not_there);
}

namespace {

Database make_index(const path& results, StoreUse use) {
  const path file = results / "results.sqlite";
  std::error_code error;
  if (use == StoreUse::kCreate) std::filesystem::create_directories(results, error);
  if (error) {
    throw std::runtime_error(results.string() + ": cannot be created: " + error.message() +
                             "; choose another folder with --results");
  }
  const bool may_write = use == StoreUse::kCreate || access(results.c_str(), W_OK) == 0;
  if (!may_write) return temporary_index();
  make_with_umask(file);
  return made_ready(Database(file));
}

Database open_index(const path& results, StoreUse use) {
  const path file = results / "results.sqlite";
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  const bool is_file = std::filesystem::is_regular_file(status);
  if (!std::filesystem::exists(status) || (is_file && std::filesystem::file_size(file) == 0)) {
    if (use == StoreUse::kCreate || has_run_files(results)) return make_index(results, use);
    throw ConfigError(file.string(), "",
                      "holds no results yet; run an experiment first, or name another folder "
                      "with --results");
  }
  if (!is_file) refuse_foreign(file);
  if (access(file.c_str(), R_OK) != 0) return made_ready(Database(file));  // throws the reason
  const std::optional<Header> header = header_of(file);
  if (!header && has_run_files(results)) throw IndexDamaged(file.string() + ": is no database");
  if (!header || !header->is_ours()) refuse_foreign(file);
  require_whole_pages(file, *header);
  make_journal_writable(file);
  const bool is_current = header->user_version == std::ssize(schema_versions());
  // This program writes no write-ahead log. Reading one would leave files beside the database.
  if (!is_current && header->has_wal) refuse_foreign(file);
  // A killed writer's change must be undone before anything can be read.
  const bool must_change = !is_current || has_journal(file);
  const bool can_change = access(file.c_str(), W_OK) == 0 && access(results.c_str(), W_OK) == 0;
  if (use == StoreUse::kCreate || !must_change || can_change) return made_ready(Database(file));
  return made_ready(Database::copy_of(file));
}

}  // namespace

Database open_results(const path& results, StoreUse use) {
  check_results_path(results);
  try {
    return open_index(results, use);
  } catch (const IndexDamaged&) {
    if (!has_run_files(results)) throw;
  }
  return make_index_anew(results, use);
}

Database make_index_anew(const path& results, StoreUse use) {
  set_index_aside(results);
  return make_index(results, use);
}

void set_index_aside(const path& results) {
  const path file = results / "results.sqlite";
  std::error_code ignored;
  std::filesystem::rename(file, file.string() + ".damaged", ignored);
  std::filesystem::remove(file.string() + "-journal", ignored);
}

namespace {

std::string drop_columns(const std::string& table, std::initializer_list<const char*> names) {
  std::string sql;
  for (const char* name : names) sql += fmt::format("alter table {} drop column {};", table, name);
  return sql;
}

}  // namespace

std::span<const std::string> schema_versions() {
  static const std::array kVersions = {
      schema(),
      "drop view comparison_per_rank; drop view comparison;" +
          drop_columns("attempts", {"continues", "other_runners"}) +
          "alter table steps add column suspended integer not null default 0;" +
          drop_columns(
              "jobs", {"git_commit", "git_dirty", "trainer_digest", "runner_version", "cpu_name",
                       "cpu_cores", "memory_total_bytes", "environment", "experiment_text_digest"}),
      std::string(),
      "drop view if exists comparison_per_rank; drop view if exists comparison;" +
          drop_columns(
              "runs",
              {"strategy", "sharding", "wrap", "prefetch", "limit_all_gathers", "offload", "ranks",
               "batch_size_per_rank", "gradient_accumulation_steps", "total_batch", "precision",
               "optimizer", "schedule", "device", "sequence_length",
               "activation_checkpointing_every", "warmup_steps_excluded", "memory_limit_gib"})};
  return kVersions;
}

void migrate(Database& database, std::span<const std::string> versions) {
  const auto header = [&] {
    const auto [version, id] = Statement(database,
                                         "select user_version, application_id "
                                         "from pragma_user_version, pragma_application_id")
                                   .value<int64_t, int64_t>()
                                   .value();
    return Header{.user_version = version, .application_id = id};
  };
  const int64_t newest = std::ssize(versions);
  if (header().is_ours() && header().user_version == newest) return;
  Transaction transaction(database);
  const Header found = header();
  const bool is_empty = found.application_id == 0 && found.user_version == 0 &&
                        !Statement(database, "select 1 from sqlite_master").value<int>();
  if (!is_empty && !found.is_ours()) refuse_foreign(database.file());
  if (found.user_version > newest) {
    const std::string problem = fmt::format(
        "schema version {} was written by a newer fsdp-run; this one reads up to version {}; "
        "update fsdp-run, or choose another folder with --results",
        found.user_version, newest);
    if (has_run_files(database.file().parent_path())) throw IndexDamaged(problem);
    throw ConfigError(database.file().string(), "", problem);
  }
  const int64_t version = is_empty ? newest : found.user_version;
  for (const std::string& step : versions.subspan(static_cast<size_t>(version))) {
    database.execute(step);
  }
  add_what_is_missing(database, versions.front());
  database.execute(
      fmt::format("pragma application_id = {}; pragma user_version = {}", kApplicationId, newest));
  transaction.commit();
}

}  // namespace fsdp
