#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "contract/text/fields.h"

struct sqlite3;
struct sqlite3_stmt;

// A thin layer over SQLite's C interface. Everything here belongs to one thread, and throws
// std::runtime_error that names the file, what went wrong and what to do: ResultsUnavailable when
// the call may be made again.
namespace fsdp {

// One connection: foreign keys checked, rollback journal (WAL does not work on network file
// systems), waits up to 10 s for another process's lock, or as it is told.
class Database {
 public:
  // Opens or creates `file`; its folder exists.
  explicit Database(const std::filesystem::path& file);
  // A copy of the database `source`, gone with the object, whose errors name `source`. The source
  // is only read; what a killed writer left in its journal is undone in the copy.
  static Database copy_of(const std::filesystem::path& source);

  const std::filesystem::path& file() const { return file_; }
  bool read_only() const;
  void set_lock_wait(std::chrono::milliseconds longest);
  // Runs statements that return no rows.
  void execute(const std::string& sql);
  bool in_transaction() const;
  // Throws for the error code `code` that a call on this connection just returned.
  [[noreturn]] void fail(int code) const;

 private:
  friend class Statement;
  Database(const std::filesystem::path& name, const std::filesystem::path& file, int flags);
  // Copies what `source` can read now; returns SQLite's code.
  int take_contents(Database& source);

  struct Close {
    void operator()(sqlite3* connection) const;
  };

  std::filesystem::path file_;
  std::unique_ptr<sqlite3, Close> connection_;
};

// The type that a column of T's has.
template <typename T>
inline constexpr std::string_view sql_type = std::floating_point<T> ? "real"
                                             : std::integral<T>     ? "integer"
                                                                    : "text";
template <typename T>
inline constexpr std::string_view sql_type<std::optional<T>> = sql_type<T>;

// A value of any column.
using SqlValue = std::variant<std::monostate, int64_t, double, std::string>;

// A prepared statement, to be run any number of times. It holds no lock between calls. A value is a
// number, a text, a path, an enum of the contract (stored as its name), an optional of these
// (stored as NULL when empty), a struct with visit_fields (one parameter or column per field), an
// SqlValue, or (as parameters) several of them.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);

  // Binds `values` to the parameters in their order and runs to the end.
  template <typename... Values>
  void run(const Values&... values) {
    query([](const Statement&) {}, values...);
  }

  // Calls on_row(*this) for each row.
  template <typename OnRow, typename... Values>
  void query(OnRow&& on_row, const Values&... values) {
    const Reset reset(*this);
    parameter_ = 0;
    (bind(values), ...);
    while (step()) {
      column_ = 0;
      on_row(*this);
    }
  }

  // The first column of the first row, if there is a row.
  template <typename T, typename... Values>
  std::optional<T> value(const Values&... values) {
    std::optional<T> result;
    query(
        [&](Statement& row) {
          if (!result) result = row.next<T>();
        },
        values...);
    return result;
  }

  // The next column, or columns for a struct, of the current row.
  template <typename T>
  T next() {
    if constexpr (is_optional<T>) {
      if (!is_null()) return next<typename T::value_type>();
      ++column_;
      return std::nullopt;
    } else if constexpr (std::same_as<T, SqlValue>) {
      return next_value();
    } else if constexpr (Fields<T>) {
      T result;
      T::visit_fields(result, [&](const char*, auto& member, auto&&...) {
        member = next<std::decay_t<decltype(member)>>();
      });
      return result;
    } else if constexpr (NamedEnum<T>) {
      const std::string name = next_text();
      if (const auto value = enum_from_name<T>(name)) return *value;
      throw std::runtime_error(file_.string() + ": '" + name + "' is not a known value");
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(next_double());
    } else if constexpr (std::integral<T>) {
      const int64_t value = next_integer();
      const auto result = static_cast<T>(value);
      if (static_cast<int64_t>(result) != value) {
        --column_;
        refuse_value("a number in range");
      }
      return result;
    } else {
      return T(next_text());
    }
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  class Reset {
   public:
    explicit Reset(Statement& statement) : statement_(statement) {}
    ~Reset();
    Reset(const Reset&) = delete;
    Reset& operator=(const Reset&) = delete;

   private:
    Statement& statement_;
  };

  template <typename T>
  void bind(const T& value) {
    if constexpr (is_optional<T>) {
      value ? bind(*value) : bind_null();
    } else if constexpr (std::same_as<T, std::monostate>) {
      bind_null();
    } else if constexpr (std::same_as<T, SqlValue>) {
      std::visit([&](const auto& held) { bind(held); }, value);
    } else if constexpr (std::same_as<T, std::vector<SqlValue>>) {
      for (const SqlValue& each : value) bind(each);
    } else if constexpr (Fields<T>) {
      T::visit_fields(value, [&](const char*, const auto& member, auto&&...) { bind(member); });
    } else if constexpr (NamedEnum<T>) {
      bind_text(name_of(value));
    } else if constexpr (std::floating_point<T>) {
      bind_double(value);
    } else if constexpr (std::integral<T>) {
      bind_integer(static_cast<int64_t>(value));
    } else if constexpr (std::same_as<T, std::filesystem::path>) {
      bind_text(value.string());
    } else {
      bind_text(value);
    }
  }

  void bind_null();
  void bind_double(double value);
  void bind_integer(int64_t value);
  void bind_text(std::string_view value);
  void check(int code) const;
  bool step();
  bool is_null() const;
  double next_double();
  int64_t next_integer();
  // Of the next column. SQLite itself would read text as 0; NULL is 0, where 0 says as much.
  [[noreturn]] void refuse_value(const std::string& wanted) const;
  std::string next_text();
  SqlValue next_value();

  const Database& database_;
  const std::filesystem::path& file_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int parameter_ = 0;
  int column_ = 0;
};

// Takes the write lock at once, so that what is read inside stays true until commit. Rolled back
// when destroyed without commit. Inside another transaction it is part of that one, which must not
// be committed when this one is not.
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

// The names of T's fields: "a, b, c"; with a suffix: "a = ?, b = ?, c = ?"; with a prefix: "s.a,
// s.b".
template <Fields T>
std::string field_columns(std::string_view suffix = {}, std::string_view prefix = {}) {
  std::string columns;
  const T defaults;
  T::visit_fields(defaults, [&](const char* name, auto&&...) {
    if (!columns.empty()) columns += ", ";
    columns += prefix;
    columns += name;
    columns += suffix;
  });
  return columns;
}

// When a row has its values: those of optional fields may be absent in any case.
enum class Presence { kAlways, kLater };

// What `create table` says of T's fields, each with a comma before it.
template <Fields T>
std::string column_definitions(Presence presence = Presence::kAlways) {
  std::string definitions;
  const T defaults;
  T::visit_fields(defaults, [&]<typename Member>(const char* name, const Member&, auto&&...) {
    definitions += ",\n  ";
    definitions += name;
    definitions += ' ';
    definitions += sql_type<Member>;
    if (!is_optional<Member> && presence == Presence::kAlways) definitions += " not null";
  });
  return definitions;
}

// "?, ?, ?": one parameter for each of T's fields.
template <Fields T>
std::string field_parameters() {
  std::string text;
  const T defaults;
  T::visit_fields(defaults, [&](auto&&...) { text += text.empty() ? "?" : ", ?"; });
  return text;
}

}  // namespace fsdp
