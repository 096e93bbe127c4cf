#pragma once

#include <string>

#include "runner/export/output_file.h"
#include "trainer/contract/json.h"

namespace fsdp {

enum class TableFormat { kCsv, kJsonl };

// RFC 4180: quoted where it holds a comma, a quote or a line's end.
void append_csv_text(std::string& out, std::string_view text);

// A value as SQLite would print it: numbers in full, nothing for what is absent, truth as 0 or 1.
template <typename T>
void append_csv(std::string& out, const T& value) {
  if constexpr (is_optional<T>) {
    if (value) append_csv(out, *value);
  } else if constexpr (std::same_as<T, bool>) {
    out += value ? '1' : '0';
  } else if constexpr (std::floating_point<T>) {
    out += shortest(value);
  } else if constexpr (std::integral<T>) {
    out += std::to_string(value);
  } else if constexpr (NamedEnum<T>) {
    append_csv_text(out, name_of(value));
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    append_csv_text(out, value.string());
  } else {
    append_csv_text(out, value);
  }
}

// A table whose rows are made of `Parts`, structs with visit_fields: a column per field. As CSV
// with a line of names first, or as JSON, an object a line.
template <Fields... Parts>
class TableFile {
 public:
  // Adds .csv or .jsonl to `stem`.
  TableFile(const std::filesystem::path& stem, TableFormat format)
      : file_(stem.string() + (format == TableFormat::kCsv ? ".csv" : ".jsonl")), format_(format) {
    if (format == TableFormat::kCsv) write_names();
  }

  void add(const Parts&... parts) {
    line_.clear();
    first_ = true;
    if (format_ == TableFormat::kJsonl) line_ += '{';
    (append(parts), ...);
    if (format_ == TableFormat::kJsonl) line_ += '}';
    end_line();
  }

  void close() { file_.close(); }

 private:
  void separate() {
    if (!first_) line_ += ',';
    first_ = false;
  }

  template <Fields Part>
  void append(const Part& part) {
    Part::visit_fields(part, [&](const char* name, const auto& member, auto&&...) {
      separate();
      if (format_ == TableFormat::kCsv) {
        append_csv(line_, member);
      } else {
        append_json_string(line_, name);
        line_ += ':';
        append_json(line_, member);
      }
    });
  }

  void write_names() {
    const auto append_names = [&]<Fields Part>(const Part& part) {
      Part::visit_fields(part, [&](const char* name, auto&&...) {
        separate();
        line_ += name;
      });
    };
    (append_names(Parts()), ...);
    end_line();
  }

  void end_line() {
    line_ += format_ == TableFormat::kCsv ? "\r\n" : "\n";
    file_.write(line_);
  }

  OutputFile file_;
  TableFormat format_;
  std::string line_;
  bool first_ = true;
};

}  // namespace fsdp
