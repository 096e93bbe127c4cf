#pragma once

#include <string>

#include "contract/text/csv.h"
#include "contract/text/json.h"
#include "runner/export/output_file.h"

namespace fsdp {

// A table with a column per field of `Parts`, structs with visit_fields. CSV begins with a line of
// names. JSON has one object a line.
template <Fields... Parts>
class TableFile {
 public:
  // Adds .csv or .jsonl to `stem`.
  TableFile(const std::filesystem::path& stem, bool as_json)
      : file_(stem.string() + (as_json ? ".jsonl" : ".csv")), as_json_(as_json) {
    if (!as_json)
      write_csv([](std::string& line, const char* name, auto&) { line += name; }, Parts()...);
  }

  void add(const Parts&... parts) {
    if (as_json_) {
      JsonObject row;
      (row.add_fields(parts), ...);
      file_.write(row.text() + '\n');
    } else {
      write_csv([](std::string& line, auto, auto& value) { append_csv(line, value); }, parts...);
    }
  }

  void close() { file_.close(); }

 private:
  // Writes one line. `append` adds the text of each field.
  template <typename Append>
  void write_csv(const Append& append, const Parts&... parts) {
    std::string line;
    const auto append_part = [&]<Fields Part>(const Part& part) {
      Part::visit_fields(part, [&](const char* name, const auto& value, auto&&...) {
        append(line, name, value);
        line += ',';
      });
    };
    (append_part(parts), ...);
    line.pop_back();
    file_.write(line + "\r\n");
  }

  OutputFile file_;
  bool as_json_;
};

}  // namespace fsdp
