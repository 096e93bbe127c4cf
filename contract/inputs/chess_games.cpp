#include "contract/inputs/chess_games.h"

#include <algorithm>
#include <string_view>

#include "contract/files/input_file.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

constexpr size_t kMostRecordBytes = 1 << 20;

// Reads records of comma-separated values one after the other.
class CsvReader {
 public:
  CsvReader(const std::filesystem::path& path, std::string_view text)
      : path_(path.string()), rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);  // byte order mark
  }

  // Reads the next record that is not an empty line; false at the end.
  bool next(std::vector<std::string>& fields) {
    while (!rest_.empty()) {
      record_line_ = line_;
      fields.clear();
      const size_t before = rest_.size();
      do {
        fields.push_back(read_field());
        if (before - rest_.size() > kMostRecordBytes) {
          refuse("a record of more than " + std::to_string(kMostRecordBytes) +
                 " bytes; is a quote not closed?");
        }
      } while (take(","));
      if (!rest_.empty() && !take("\r\n") && !take("\n")) refuse("text after a closing quote");
      ++line_;
      if (fields.size() > 1 || !fields[0].empty()) return true;
    }
    return false;
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(path_ + ":" + std::to_string(record_line_), "", problem);
  }

 private:
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  std::string read_field() {
    if (take("\"")) return read_quoted();
    const size_t length = std::min(rest_.find_first_of(",\r\n\""), rest_.size());
    std::string field(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (rest_.starts_with('"')) refuse("a quote inside a field that does not start with one");
    return field;
  }

  std::string read_quoted() {
    std::string field;
    while (true) {
      const size_t length = rest_.find('"');
      if (length == std::string_view::npos) refuse("a quoted field without its closing quote");
      field += rest_.substr(0, length);
      rest_.remove_prefix(length + 1);
      if (!take("\"")) break;
      field += '"';
    }
    line_ += std::ranges::count(field, '\n');
    return field;
  }

  std::string path_;
  std::string_view rest_;
  int64_t line_ = 1;
  int64_t record_line_ = 1;
};

}  // namespace

std::vector<ChessGame> read_chess_games(const std::filesystem::path& path) {
  const auto file = map_input_file(path);
  CsvReader reader(path, file->text());
  std::vector<std::string> fields;
  if (!reader.next(fields)) refuse_file(path, "is empty; needed: Moves,Termination,Result");
  const size_t columns = fields.size();
  const auto column = [&](std::string_view name) {
    const auto found = std::ranges::find(fields, name);
    if (found == fields.end()) {
      reader.refuse("has no column '" + std::string(name) +
                    "'; needed: Moves, Termination, Result");
    }
    return static_cast<size_t>(found - fields.begin());
  };
  const size_t moves = column("Moves");
  const size_t termination = column("Termination");
  const size_t result = column("Result");
  std::vector<ChessGame> games;
  while (reader.next(fields)) {
    if (fields.size() != columns) {
      reader.refuse("has " + std::to_string(fields.size()) +
                    " fields; needed: " + std::to_string(columns) + " as in the header");
    }
    games.push_back({.moves = std::move(fields[moves]),
                     .termination = std::move(fields[termination]),
                     .result = std::move(fields[result])});
  }
  return games;
}

}  // namespace fsdp
