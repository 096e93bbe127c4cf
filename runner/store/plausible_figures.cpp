#include "runner/store/plausible_figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "contract/text/utf8.h"
#include "runner/store/database.h"

namespace fsdp {
namespace {

struct Rule {
  std::string implausible;  // a condition of SQL on the value {0}
  const char* allowed;
};

bool holds(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Returns nullopt if any value may stand in the column.
std::optional<Rule> rule_of(const std::string& name, const std::string& type) {
  if (name == "spec" || name == "environment") {
    return Rule{"{0} <> '' and coalesce(iif(json_valid({0}), json_type({0}), '') <> 'object', 1)",
                "a JSON object"};
  }
  if ((type != "integer" && type != "real") || name == "exit_code") return std::nullopt;
  constexpr const char* kNumber = "typeof({0}) in ('integer', 'real') and {0} not between ";
  if (name.ends_with("_unix_ms")) {
    return Rule{std::string(kNumber) + "0 and 253402300799999", "a time from 1970 to 9999"};
  }
  if (holds(name, "_time_ms")) return Rule{std::string(kNumber) + "0 and 1e15", "0 to 1e15 ms"};
  // A clock that is set back makes energy negative. A loss may be any value of fp32.
  if (holds(name, "loss") || holds(name, "energy") || holds(name, "temperature")) {
    return Rule{std::string(kNumber) + "-1e39 and 1e39", "-1e39 to 1e39"};
  }
  return Rule{std::string(kNumber) + "0 and 1e39", "0 to 1e39"};
}

struct CheckedColumn {
  std::string name;
  std::string implausible;
  const char* allowed;
};

// Returns the columns to check, even those that SQLite computes from a specification.
std::vector<CheckedColumn> checked_columns(Database& database, const std::string& table) {
  std::vector<CheckedColumn> checked;
  Statement columns(database, "select name, lower(type) from pragma_table_xinfo(?)");
  for (const auto& [name, type] : columns.rows<std::string, std::string>(table)) {
    const std::optional<Rule> rule = rule_of(name, type);
    if (!rule) continue;
    checked.push_back({name, fmt::format(fmt::runtime(rule->implausible), name), rule->allowed});
  }
  return checked;
}

std::string text_of_value(const SqlValue& value) {
  constexpr size_t kLongest = 60;
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "NULL" : "'" + visible_line(text->substr(0, kLongest)) + "'";
}

// `key` is the column with the run's number.
void require_plausible_table(Database& database, const std::string& table, const char* key) {
  const std::vector<CheckedColumn> columns = checked_columns(database, table);
  std::vector<std::string> conditions;
  for (const CheckedColumn& column : columns) {
    conditions.push_back(fmt::format("({})", column.implausible));
  }
  if (conditions.empty()) return;
  const auto run = Statement(database, fmt::format("select {} from {} where {} limit 1", key, table,
                                                   fmt::join(conditions, " or ")))
                       .value<int64_t>();
  if (!run) return;
  const auto names = Statement(database, "select experiment, point from runs where id = ?")
                         .value<std::string, std::string>(*run);
  if (!names) return;  // merging reports the missing run
  const auto& [experiment, point] = *names;
  for (const CheckedColumn& column : columns) {
    const auto value =
        Statement(database, fmt::format("select {} from {} where {} = ? and ({}) limit 1",
                                        column.name, table, key, column.implausible))
            .value<SqlValue>(*run);
    if (!value) continue;
    throw std::runtime_error(fmt::format(
        "its run {}, '{}' of the experiment '{}', has {} as {} in its table {}; allowed: {}; "
        "remove the run there with `fsdp-run prune {}`, or run it again with --rerun",
        *run, visible_line(point), visible_line(experiment), text_of_value(*value), column.name,
        table, column.allowed, *run));
  }
}

}  // namespace

void require_plausible_figures(Database& database) {
  require_plausible_table(database, "runs", "id");
  for (const char* table : {"attempts", "ranks", "summaries", "steps", "evaluations", "checkpoints",
                            "device_samples"}) {
    require_plausible_table(database, table, "run");
  }
}

}  // namespace fsdp
