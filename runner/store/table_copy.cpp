#include "runner/store/table_copy.h"

#include <ranges>

namespace fsdp {
namespace {

// True if a value may stand in a column declared as `type`.
bool is_of_type(const SqlValue& value, const std::string& type) {
  if (std::holds_alternative<std::monostate>(value)) return true;  // the column allows NULL or not
  if (type == "text") return std::holds_alternative<std::string>(value);
  if (std::holds_alternative<int64_t>(value)) return true;
  return type == "real" && std::holds_alternative<double>(value);
}

}  // namespace

std::vector<std::string> tables_of_runs(Database& database) {
  return Statement(database,
                   "select m.name from sqlite_master m join pragma_table_info(m.name) c "
                   "where m.type = 'table' and c.name = 'run'")
      .rows<std::string>();
}

void copy_table(Database& from, Database& into, const std::string& table,
                const std::function<void(const std::string&, SqlValue&)>& change) {
  const auto columns = Statement(into, "select name, lower(type) from pragma_table_info(?)")
                           .rows<std::string, std::string>(table);
  const std::string names = fmt::format("{}", fmt::join(std::views::keys(columns), ", "));
  Statement insert(into, "insert or replace into " + table + " " + values_of(names));
  Statement(from, "select " + names + " from " + table).query([&](Statement& row) {
    auto values = row.next<std::vector<SqlValue>>();
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto& [name, type] = columns[i];
      if (!is_of_type(values[i], type)) {
        throw std::runtime_error(fmt::format(
            "{}: is damaged: the column {} of its table {} holds something else than {}",
            from.file().string(), name, table, type));
      }
      if (change) change(name, values[i]);
    }
    insert.run(values);
  });
}

}  // namespace fsdp
