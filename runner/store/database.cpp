#include "runner/store/database.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/files/disk_full.h"
#include "base/files/scratch_folder.h"
#include "base/text/config_error.h"
#include "runner/store/results_unavailable.h"

namespace fsdp {
namespace {

struct Remedy {
  std::array<int, 3> codes;
  bool may_pass;  // the call may succeed later, when another program or the file system allows it
  const char* advice;
};

constexpr std::array kRemedies = {
    Remedy{{SQLITE_FULL, SQLITE_IOERR, SQLITE_PROTOCOL},
           true,
           "free space on its file system (or raise the quota) and call again; what was recorded "
           "before is kept"},
    Remedy{{SQLITE_READONLY, SQLITE_PERM, SQLITE_CANTOPEN},
           true,
           "make the file and its folder writable, or choose another folder with --results"},
    Remedy{{SQLITE_BUSY, SQLITE_LOCKED},
           true,
           "another program holds it locked, such as a reader that is paused; close that program, "
           "or choose another folder with --results"},
    Remedy{{SQLITE_NOTADB, SQLITE_CORRUPT},
           false,
           "it is not a database of this program; move it away, or choose another folder with "
           "--results"},
};

bool files_are_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// True if the disk or a quota is full. Only the system's error tells of a quota.
bool is_full(int code, sqlite3* connection) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  const bool is_of_file = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
  const int error = is_of_file && connection ? sqlite3_system_errno(connection) : 0;
  return is_disk_full(error);
}

// True if `code` means that the open file, or its folder, has moved.
bool says_moved(int code, const std::filesystem::path& file) {
  if (code == SQLITE_READONLY_DBMOVED) return true;
  std::error_code error;
  return (code & 0xff) == SQLITE_CANTOPEN && !std::filesystem::exists(file.parent_path(), error);
}

// True if the open file was deleted, or another file took its place.
bool was_replaced(int code, const std::filesystem::path& file) {
  std::error_code error;
  return code == SQLITE_READONLY_DBMOVED && std::filesystem::exists(file.parent_path(), error);
}

// True if another program emptied the open file: no statement finds its table any more.
bool was_emptied(int code, const std::filesystem::path& file) {
  std::error_code error;
  return (code & 0xff) == SQLITE_ERROR && std::filesystem::file_size(file, error) == 0 && !error;
}

// True if the tables are gone: another program emptied the file, and may be filling it anew.
bool lost_its_tables(int code, sqlite3* connection) {
  return (code & 0xff) == SQLITE_ERROR && connection != nullptr &&
         std::string_view(sqlite3_errmsg(connection)).starts_with("no such table");
}

// Copies a database file, and the journal that a killed writer left, to `folder`. Copies the files
// without SQLite, which would have to write to the source first. Throws if another process changes
// the source meanwhile: with one of the two files older than the other, the copy would be wrong.
std::filesystem::path copy_with_journal(const std::filesystem::path& source,
                                        const std::filesystem::path& folder) {
  std::filesystem::path file = folder / "results.sqlite";
  const std::filesystem::path journal = source.string() + "-journal";
  const auto last_changes = [&] {
    std::error_code absent;
    return std::pair(std::filesystem::last_write_time(source),
                     std::filesystem::last_write_time(journal, absent));
  };
  const auto before = last_changes();
  std::filesystem::copy_file(source, file);
  if (std::filesystem::exists(journal)) {
    std::filesystem::copy_file(journal, file.string() + "-journal");
  }
  if (last_changes() != before) {
    throw std::runtime_error(source.string() + " was changed while it was copied; call again");
  }
  return file;
}

// Refuses pipes and the like: opening a pipe waits for its writer.
void refuse_what_is_no_file(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw ConfigError(file.string(), "",
                    "is no file; move it away, or choose another folder with --results");
}

}  // namespace

bool says_disk_full(const std::exception& error) {
  if (dynamic_cast<const DiskFull*>(&error) != nullptr) return true;
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  return of_system != nullptr && is_disk_full(of_system->code().value());
}

bool may_pass(const std::exception& error) {
  if (dynamic_cast<const ResultsUnavailable*>(&error) != nullptr) return true;
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system == nullptr) return false;
  constexpr std::array kPassing = {ENOSPC, EDQUOT, EROFS, EACCES, EPERM,
                                   EIO,    ESTALE, EBUSY, EFBIG,  ETIMEDOUT};
  const std::error_condition cause = of_system->code().default_error_condition();
  return cause.category() == std::generic_category() &&
         std::ranges::find(kPassing, cause.value()) != kPassing.end();
}

Database::Database(const std::filesystem::path& name, const std::filesystem::path& file, int flags)
    : file_(name) {
  refuse_what_is_no_file(file);
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &connection, flags, nullptr);
  connection_.reset(connection);
  if (code != SQLITE_OK) fail(code);
  sqlite3_extended_result_codes(connection, 1);
  set_lock_wait(kLockWait);
}

Database::Database(const std::filesystem::path& file)
    : Database(file, file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
  execute("pragma foreign_keys = on; pragma synchronous = normal; pragma journal_mode = truncate");
}

Database Database::copy_of(const std::filesystem::path& source,
                           const std::filesystem::path& copy_file) {
  Database copy(source, copy_file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  copy.execute("pragma synchronous = off; pragma journal_mode = memory");
  Database original(source, source, SQLITE_OPEN_READONLY);
  int code = copy.take_contents(original);
  if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_CANTOPEN) {
    const ScratchFolder folder;
    Database sound(source, copy_with_journal(source, folder.path()), SQLITE_OPEN_READWRITE);
    code = copy.take_contents(sound);
  }
  if (code != SQLITE_OK) copy.fail(code);
  return copy;
}

int Database::take_contents(Database& source) {
  sqlite3_backup* backup =
      sqlite3_backup_init(connection_.get(), "main", source.connection_.get(), "main");
  if (backup == nullptr) return sqlite3_extended_errcode(connection_.get());
  constexpr int kAllPages = -1;
  sqlite3_backup_step(backup, kAllPages);
  return sqlite3_backup_finish(backup);
}

void Database::set_lock_wait(std::chrono::milliseconds longest) {
  sqlite3_busy_timeout(connection_.get(), static_cast<int>(longest.count()));
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_.get()) == 0; }

void Database::fail(int code) const {
  const auto remedy = std::ranges::find_if(kRemedies, [&](const Remedy& each) {
    return std::ranges::find(each.codes, code & 0xff) != each.codes.end();
  });
  std::string advice = remedy == kRemedies.end() ? "" : remedy->advice;
  if (says_moved(code, file_)) {
    advice = "it is no longer where it was; put it back";
  } else if (was_emptied(code, file_)) {
    advice = "another program emptied it; put its contents back";
  } else if ((code & 0xff) == SQLITE_IOERR && files_are_limited()) {
    advice = "raise the limit on the size of files (ulimit -f), or " + advice;
  }
  const std::string message =
      fmt::format("{}: {}{}{}", file_.string(),
                  connection_ ? sqlite3_errmsg(connection_.get()) : sqlite3_errstr(code),
                  advice.empty() ? "" : "; ", advice);
  if (is_full(code, connection_.get())) throw DiskFull(message);
  const int kind = code & 0xff;
  is_damaged_ |= kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || was_emptied(code, file_) ||
                 was_replaced(code, file_) || lost_its_tables(code, connection_.get());
  if (is_damaged_) throw IndexDamaged(message);
  const bool may_pass = remedy != kRemedies.end() && remedy->may_pass;
  if (may_pass) throw ResultsUnavailable(message);
  throw std::runtime_error(message);
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(database.connection_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  statement_.reset(statement);
  check(code);
}

void Statement::refuse_value(const char* wanted) const {
  throw std::runtime_error(fmt::format(
      "{}: '{}' does not hold {}; another program has changed it: restore the file",
      database_.file().string(), sqlite3_column_name(statement_.get(), column_), wanted));
}

Transaction::Transaction(Database& database)
    : database_(database), open_(!database.in_transaction()) {
  if (open_) database_.execute("begin immediate");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("rollback");
  } catch (const std::runtime_error&) {
    // After some errors, such as a full disk, SQLite has rolled back by itself.
  }
}

void Transaction::commit() {
  if (!open_) return;
  database_.execute("commit");
  open_ = false;
}

std::string values_of(std::string_view columns) {
  std::string parameters = "?";
  for (const char each : columns) parameters += each == ',' ? ", ?" : "";
  return fmt::format("({}) values ({})", columns, parameters);
}

std::vector<std::string> tables_of_runs(Database& database) {
  return Statement(database,
                   "select m.name from sqlite_master m join pragma_table_info(m.name) c "
                   "where m.type = 'table' and c.name = 'run'")
      .rows<std::string>();
}

}  // namespace fsdp
