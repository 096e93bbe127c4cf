#pragma once

#include <string>

#include "contract/text/csv.h"
#include "contract/text/json.h"
#include "runner/export/output_file.h"

namespace fsdp {

enum class TableFormat { kCsv, kJsonl };

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
