#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contract/data/parquet_rows.h"
#include "contract/files/input_file.h"

// Files of records: CSV (RFC 4180, with a header), a JSON array of objects, JSON lines, lines of
// text, Parquet. All are UTF-8.
namespace fsdp {

// By the file's name (.csv, .jsonl, .txt, .parquet); .json and other names by how it begins.
enum class RecordFormat { kCsv, kJsonArray, kJsonLines, kText, kParquet };

inline constexpr size_t kMostRecordBytes = 16 << 20;

// A record as it stands in its file; of Parquet, as JSON.
struct RawRecord {
  std::string_view bytes;  // as long as its RecordFile lives; of Parquet, as `row`
  int64_t line = 1;        // that it begins in; of Parquet, its row, from 1
  std::shared_ptr<const std::string> row;
};

// Finds one record after the other, without taking them apart. Not thread-safe.
class RecordFile {
 public:
  // Throws ConfigError (place: the file) when it cannot be read or is of no such format.
  explicit RecordFile(const std::filesystem::path& path);
  // The same of a file's text, which the caller keeps. `path` tells the format, and errors name it.
  RecordFile(const std::filesystem::path& path, std::string_view text);

  const std::filesystem::path& path() const { return path_; }
  RecordFormat format() const { return format_; }
  const std::vector<std::string>& header() const { return header_; }  // the columns of a CSV

  // False at the end. Throws ConfigError (place: file:line) where the file is malformed.
  bool next(RawRecord& record);

  int64_t size_bytes() const { return std::ssize(text_); }
  int64_t read_bytes() const;  // of Parquet, as its rows
  // Gives back the memory of what stands before `record`, which nobody reads any more.
  void forget_before(const RawRecord& record);

 private:
  void begin();
  bool next_of_csv(RawRecord& record);
  bool next_of_array(RawRecord& record);
  bool next_line(RawRecord& record);
  bool next_row(RawRecord& record);
  void take(size_t bytes);
  void skip_white_space();

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;  // null: of text that the caller keeps
  std::string_view text_;
  RecordFormat format_;
  std::string_view rest_;              // not of Parquet
  std::unique_ptr<ParquetRows> rows_;  // of Parquet
  int64_t line_ = 1;
  size_t forgotten_bytes_ = 0;
  bool has_elements_ = false;  // of an array: before rest_
  bool is_at_end_ = false;     // of an array
  std::vector<std::string> header_;
};

struct Turn {
  std::string_view role;
  std::string_view content;
};

// A record taken apart. Its views last until the next one is parsed. One thread uses it.
class Record {
 public:
  explicit Record(const RecordFile& file);
  ~Record();

  // Throws ConfigError (place: file:line) when it is malformed or no UTF-8.
  void parse(const RawRecord& raw);

  // The text in a column. Throws ConfigError when there is none, or something else.
  std::string_view text(std::string_view column) const;
  // The same, empty when the column is missing or null.
  std::string_view text_or_empty(std::string_view column) const;
  // A list of objects with role and content; of JSON only.
  std::vector<Turn> turns(std::string_view column) const;

  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  struct Parsed;

  void parse_csv(std::string_view bytes);

  std::string path_;
  RecordFormat format_;
  int64_t line_ = 1;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace fsdp
