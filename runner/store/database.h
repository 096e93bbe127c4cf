#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text/fields.h"

// A thin layer over SQLite's C interface. Everything here belongs to one thread. Errors are
// std::runtime_error and name the file, the problem and a remedy. A call that throws
// ResultsUnavailable may be made again.
namespace fsdp {

// A deleter of SQLite's objects that calls `Function`, such as sqlite3_close.
template <auto Function>
struct CallAtEnd {
  void operator()(auto* object) const { Function(object); }
};

// One connection. It checks foreign keys and has a rollback journal, as WAL fails on network file
// systems. It waits up to 10 s for another process's lock, unless set_lock_wait differs.
class Database {
 public:
  // Opens or creates `file`. Its folder must exist.
  explicit Database(const std::filesystem::path& file);
  // SQLite's name for a temporary database, which is deleted when it is closed.
  static constexpr const char* kTemporary = "";
  // Returns a copy of the database `source`, in the file `copy` or a temporary one. Its errors name
  // `source`. The source is only read. If a writer was killed, the change in its journal is undone
  // in the copy.
  static Database copy_of(const std::filesystem::path& source,
                          const std::filesystem::path& copy = kTemporary);

  const std::filesystem::path& file() const { return file_; }
  void set_lock_wait(std::chrono::milliseconds longest);
  // Runs statements that return no rows.
  void execute(const std::string& sql);
  bool in_transaction() const;
  // True if a call found the file damaged, emptied, deleted or replaced.
  bool is_damaged() const { return is_damaged_; }
  // Throws for the error code `code` that a call on this connection has just returned.
  [[noreturn]] void fail(int code) const;

 private:
  friend class Statement;
  Database(const std::filesystem::path& name, const std::filesystem::path& file, int flags);
  // Copies the readable contents of `source`; returns SQLite's code.
  int take_contents(Database& source);

  std::filesystem::path file_;
  std::unique_ptr<sqlite3, CallAtEnd<sqlite3_close>> connection_;
  mutable bool is_damaged_ = false;
};

// A prepared statement that can be executed many times. It holds no lock between calls. A value can
// be a number, a text, a path, or an enum of the contract (stored as its name). An optional of
// these is stored as NULL if empty. A struct with visit_fields takes one parameter or column per
// field.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);

  // Binds `values` to the parameters in their order and executes the statement.
  template <typename... Values>
  void run(const Values&... values) {
    query([](const Statement&) {}, values...);
  }

  // Calls on_row(*this) for each row.
  template <typename OnRow, typename... Values>
  void query(OnRow&& on_row, const Values&... values) {
    const std::unique_ptr<sqlite3_stmt, CallAtEnd<sqlite3_reset>> reset(statement_.get());
    parameter_ = 0;
    (bind(values), ...);
    while (step()) {
      column_ = 0;
      on_row(*this);
    }
  }

  // Returns all rows: each a T, or a tuple of several types.
  template <typename... Columns, typename... Values>
  auto rows(const Values&... values) {
    std::vector<decltype(next<Columns...>())> result;
    query([&](Statement& row) { result.push_back(row.next<Columns...>()); }, values...);
    return result;
  }

  // Returns the first row, if there is one.
  template <typename... Columns, typename... Values>
  auto value(const Values&... values) {
    std::optional<decltype(next<Columns...>())> result;
    const auto keep_first = [&](Statement& row) {
      if (!result) result = row.next<Columns...>();
    };
    query(keep_first, values...);
    return result;
  }

  // Returns the next column of the current row, or columns for a struct; a tuple for several types.
  template <typename T, typename... More>
  auto next() {
    if constexpr (sizeof...(More) > 0) {
      return std::tuple<T, More...>{next<T>(), next<More>()...};
    } else {
      return next_of<T>();
    }
  }

 private:
  template <typename T>
  T next_of() {
    if constexpr (is_optional<T>) {
      if (type() != SQLITE_NULL) return next_of<typename T::value_type>();
      ++column_;
      return std::nullopt;
    } else if constexpr (Fields<T>) {
      T result;
      T::visit_fields(result, [&](const char*, auto& member, auto&&...) {
        member = next_of<std::decay_t<decltype(member)>>();
      });
      return result;
    } else if constexpr (NamedEnum<T>) {
      const auto name = next_of<std::string>();
      if (const auto value = enum_from_name<T>(name)) return *value;
      throw std::runtime_error(database_.file().string() + ": '" + name + "' is not a known value");
    } else if constexpr (std::floating_point<T>) {
      if (type() == SQLITE_TEXT || type() == SQLITE_BLOB) refuse_value("a number");
      return static_cast<T>(sqlite3_column_double(statement_.get(), column_++));
    } else if constexpr (std::integral<T>) {
      if (type() != SQLITE_INTEGER && type() != SQLITE_NULL) refuse_value("a whole number");
      const int64_t value = sqlite3_column_int64(statement_.get(), column_);
      const auto result = static_cast<T>(value);
      if (static_cast<int64_t>(result) != value) refuse_value("a number in range");
      ++column_;
      return result;
    } else {
      const auto* text = sqlite3_column_text(statement_.get(), column_);
      const int bytes = sqlite3_column_bytes(statement_.get(), column_++);
      return T(std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(bytes)));
    }
  }

  template <typename T>
  void bind(const T& value) {
    if constexpr (is_optional<T>) {
      value ? bind(*value) : check(sqlite3_bind_null(statement_.get(), ++parameter_));
    } else if constexpr (Fields<T>) {
      T::visit_fields(value, [&](const char*, const auto& member, auto&&...) { bind(member); });
    } else if constexpr (NamedEnum<T>) {
      bind(name_of(value));
    } else if constexpr (std::floating_point<T>) {
      check(sqlite3_bind_double(statement_.get(), ++parameter_, value));
    } else if constexpr (std::integral<T>) {
      check(sqlite3_bind_int64(statement_.get(), ++parameter_, static_cast<int64_t>(value)));
    } else if constexpr (std::same_as<T, std::filesystem::path>) {
      bind(value.native());
    } else {
      const std::string_view text(value);
      check(sqlite3_bind_text64(statement_.get(), ++parameter_, text.data() ? text.data() : "",
                                text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
    }
  }

  bool step() {
    const int code = sqlite3_step(statement_.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) database_.fail(code);
    return code == SQLITE_ROW;
  }
  void check(int code) const {
    if (code != SQLITE_OK) database_.fail(code);
  }
  // The type of the next column.
  int type() const { return sqlite3_column_type(statement_.get(), column_); }
  // Throws because the next column does not hold `wanted`. SQLite itself would read text as 0. NULL
  // is not refused, and is read as 0.
  [[noreturn]] void refuse_value(const char* wanted) const;

  const Database& database_;
  std::unique_ptr<sqlite3_stmt, CallAtEnd<sqlite3_finalize>> statement_;
  int parameter_ = 0;
  int column_ = 0;
};

// Takes the write lock at once, so values read inside stay true until commit. Rolls back if
// destroyed without commit. Inside another transaction, it is a part of the outer one. The outer
// one must not be committed unless the inner one was.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit();

 private:
  Database& database_;
  bool open_;
};

// Returns the names of T's fields: "a, b". A suffix makes it "a = ?, b = ?", a prefix "s.a, s.b".
template <Fields T>
std::string field_columns(std::string_view suffix = {}, std::string_view prefix = {},
                          std::string_view separator = ", ") {
  std::vector<std::string> columns;
  const T defaults;
  T::visit_fields(defaults, [&](const char* name, auto&&...) {
    columns.push_back(fmt::format("{}{}{}", prefix, name, suffix));
  });
  return fmt::format("{}", fmt::join(columns, separator));
}

// Returns a query that reads a T from each row: "select a, b from " and `from`.
template <Fields T>
std::string select(std::string_view from) {
  return fmt::format("select {} from {}", field_columns<T>(), from);
}

// Returns the rest of `insert into table` for the columns "a, b": "(a, b) values (?, ?)".
std::string values_of(std::string_view columns);

// Returns the tables that have a column `run`.
std::vector<std::string> tables_of_runs(Database& database);

}  // namespace fsdp
