#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runner/store/migrations.h"
#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

// What ranks reported, nearly all of a database.
constexpr std::array kMeasurements = {"steps", "evaluations", "checkpoints", "device_samples"};

// Another database that statements of `database` can name `other`.
class Attached {
 public:
  Attached(Database& database, const std::filesystem::path& file) : database_(database) {
    Statement(database, "attach ? as other").run(file);
  }
  ~Attached() { database_.execute("detach other"); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  Database& database_;
};

std::vector<std::string> tables_to_copy(Database& database) {
  std::vector<std::string> tables;
  Statement(database, "select name from main.sqlite_master where type = 'table'")
      .query([&](Statement& row) {
        std::string name = row.next<std::string>();
        if (std::ranges::find(kMeasurements, name) == kMeasurements.end() &&
            !name.starts_with("sqlite_")) {
          tables.push_back(std::move(name));
        }
      });
  return tables;
}

}  // namespace

void Store::write_planning_copy(const std::filesystem::path& file) const {
  std::filesystem::remove(file);
  {
    Database copy(file);
    migrate(copy);
  }
  Database& database = contents_->database;
  const Attached attached(database, file);
  Transaction transaction(database);
  database.execute("pragma defer_foreign_keys = on");
  for (const std::string& table : tables_to_copy(database)) {
    const std::string columns =
        Statement(database, "select group_concat(name) from pragma_table_info(?)")
            .value<std::string>(table)
            .value();  // without those that are computed
    database.execute("insert into other." + table + " (" + columns + ") select " + columns +
                     " from main." + table);
  }
  transaction.commit();
}

}  // namespace fsdp
