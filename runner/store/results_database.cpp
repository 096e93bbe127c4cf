#include "runner/store/results_database.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <system_error>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/store/migrations.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// The first bytes of a database file. They are read without SQLite, which would lock the file and
// may change it.
struct Header {
  int64_t user_version = 0;
  int64_t application_id = 0;
  uintmax_t page_bytes = 0;
  bool has_wal = false;
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
                .page_bytes = page_bytes == 1 ? 65536 : page_bytes,  // which has no room there
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
  throw std::runtime_error(file.string() +
                           ": is cut short, the end of its last page is missing; copy it once " +
                           "more, or move it away");
}

// Returns "table", or the text of a view, by name. Names are in lower case, as SQLite ignores case.
std::map<std::string, std::string> named_in(Database& database) {
  std::map<std::string, std::string> named;
  Statement objects(database,
                    "select lower(name), iif(type = 'view', sql, type) from sqlite_master "
                    "where type in ('table', 'view')");
  for (auto& [name, made] : objects.rows<std::string, std::string>()) named[name] = made;
  return named;
}

bool can_write(const path& file) {
  return access(file.c_str(), W_OK) == 0 && access(file.parent_path().c_str(), W_OK) == 0;
}

Database opened(const path& file) {
  Database database(file);
  migrate(database);
  return database;
}

bool holds_nothing(const path& file, const std::filesystem::file_status& status) {
  if (!std::filesystem::exists(status)) return true;
  return std::filesystem::is_regular_file(status) && std::filesystem::file_size(file) == 0;
}

Database created(const path& file) {
  const path folder = file.parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return opened(file);
  throw std::runtime_error(folder.string() + ": cannot be created: " + error.message() +
                           "; choose another folder with --results");
}

// Refuses a write-ahead log: this program writes none, and reading it would leave files beside it.
Database migrated(const path& file, const Header& header, StoreUse use) {
  if (header.has_wal) refuse_foreign(file);
  Database copy = Database::copy_of(file);
  if (use == StoreUse::kCreate || can_write(file)) return opened(file);
  migrate(copy);
  return copy;
}

Database found_or_made(const path& results, StoreUse use) {
  check_results_path(results);
  const path file = results / "results.sqlite";
  std::error_code not_there;
  const auto status = std::filesystem::status(file, not_there);
  if (holds_nothing(file, status)) {
    if (use == StoreUse::kCreate) return created(file);
    throw ConfigError(file.string(), "",
                      "holds no results yet; run an experiment first, or name another folder with "
                      "--results");
  }
  if (!std::filesystem::is_regular_file(status)) refuse_foreign(file);
  if (access(file.c_str(), R_OK) != 0) return opened(file);  // throws the reason
  const std::optional<Header> header = header_of(file);
  if (!header || !is_ours(header->application_id, header->user_version)) refuse_foreign(file);
  require_whole_pages(file, *header);
  if (!is_current(header->application_id, header->user_version)) {
    return migrated(file, *header, use);
  }
  // A killed writer's change must be undone before anything can be read.
  const bool is_undone_in_a_copy =
      use == StoreUse::kExisting && has_journal(file) && !can_write(file);
  return is_undone_in_a_copy ? Database::copy_of(file) : opened(file);
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

void refuse_write_ahead_log(const path& file) {
  if (!std::filesystem::is_regular_file(file)) return;
  const std::optional<Header> header = header_of(file);
  if (!header || !header->has_wal) return;
  throw ConfigError(file.string(), "",
                    "another program has given it a write-ahead log; close that program, and let "
                    "fsdp-run take it away: fsdp-run report --results " +
                        file.parent_path().string());
}

void require_own_views(Database& database) {
  static const std::map<std::string, std::string> kOwn = [] {
    Database fresh(":memory:");
    migrate(fresh);
    return named_in(fresh);
  }();
  for (const auto& [name, made] : named_in(database)) {
    const auto own = kOwn.find(name);
    if (own == kOwn.end() || own->second == made) continue;
    throw ConfigError(database.file().string(), "",
                      "another program has changed its '" + name +
                          "'; restore the file, or choose another folder with --results");
  }
}

Database open_results(const path& results, StoreUse use) {
  Database database = found_or_made(results, use);
  require_own_views(database);
  return database;
}

}  // namespace fsdp
