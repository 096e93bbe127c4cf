#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/digest.h"
#include "base/files/file_digest.h"
#include "base/files/input_file.h"
#include "contract/spec/data_spec.h"
#include "formats/data/parquet_rows.h"

// Files of records: CSV (RFC 4180, with a header), a JSON array of objects, JSON lines, lines of
// text, Parquet. All are UTF-8.
namespace fsdp {

// The format follows from the file's name (.csv, .jsonl, .txt, .parquet). For .json and other names
// it follows from the file's beginning.
enum class RecordFormat { kCsv, kJsonArray, kJsonLines, kText, kParquet };

inline constexpr size_t kMostRecordBytes = 16 << 20;

inline constexpr size_t kKnownContentsBytes = 8;

// Throws ConfigError (place: the file) if the file is compressed or an archive. The error names the
// command that unpacks it. `begin` holds the first kKnownContentsBytes of `path`.
void refuse_packed(const std::filesystem::path& path, std::string_view begin);

// The same for text in UTF-16 or UTF-32 instead of UTF-8.
void refuse_other_encoding(const std::filesystem::path& path, std::string_view begin);

// Splits a CSV record into `fields`. Returns the problem if the record is malformed, else "".
std::string split_csv_record(std::string_view record, std::vector<std::string>& fields);

// Returns the length of the record at the start of `text`, with its line end. Returns npos if a
// quote stays open or `text` is longer than `most` bytes without a line end.
size_t csv_record_length(std::string_view text, size_t most);

// The unparsed text of a record. A row of Parquet is JSON.
struct RawRecord {
  std::string bytes;
  int64_t line = 1;  // where the record begins, from 1; for Parquet, the row
};

// Finds one record after the other without parsing it. Reads the file once, from beginning to end,
// with a buffer little larger than a record. Not thread-safe.
class RecordFile {
 public:
  // Throws ConfigError (place: the file) if it cannot be read or has none of these formats.
  explicit RecordFile(const std::filesystem::path& path);
  // The same for a text in memory, which the caller keeps. `path` decides the format; errors name
  // it.
  RecordFile(const std::filesystem::path& path, std::string_view text);

  const std::filesystem::path& path() const { return file_.path(); }
  RecordFormat format() const { return format_; }
  const std::vector<std::string>& header() const { return header_; }  // the columns of a CSV

  // False at the end. Throws ConfigError (place: file:line) if the file is malformed, and (place:
  // the file) if it was cut short since it was opened.
  bool next(RawRecord& record);

  int64_t size_bytes() const { return static_cast<int64_t>(file_.size_bytes()); }
  int64_t read_bytes() const;  // for Parquet, estimated from the rows read

  // The digest of the bytes that were read, once next() has returned false. Parquet is not read in
  // order, so its whole file is read for the digest. Throws ConfigError if a Parquet file changed
  // since it was opened.
  std::string digest();

 private:
  void begin();
  std::string_view rest() const { return std::string_view(buffer_).substr(taken_); }
  bool is_all_in_buffer() const { return loaded_bytes_ == file_.size_bytes(); }
  void load(size_t bytes);
  template <typename Find>
  size_t find_in_rest(Find find);
  bool next_of_csv(RawRecord& record);
  bool next_of_array(RawRecord& record);
  bool next_line(RawRecord& record);
  bool next_row(RawRecord& record);
  void take(size_t bytes);
  void skip_white_space();

  InputFile file_;
  RecordFormat format_;
  std::string buffer_;
  size_t taken_ = 0;                    // bytes of buffer_ that were consumed
  uint64_t loaded_bytes_ = 0;           // of the file, into buffer_
  Digest digest_;                       // of the loaded bytes
  std::unique_ptr<ParquetRows> rows_;   // null unless Parquet
  std::optional<FileState> opened_as_;  // nullopt unless Parquet
  int64_t line_ = 1;
  bool has_elements_ = false;  // kJsonArray: an element was read
  bool is_at_end_ = false;     // kJsonArray: the closing bracket was read
  std::vector<std::string> header_;
};

class RecordCounts;

struct Turn {
  std::string_view role;  // its usual name, as RecordCounts::add_turn() returns it
  std::string_view content;
};

// A parsed record. Its views last until the next parse(). One thread uses it.
class Record {
 public:
  explicit Record(const RecordFile& file);
  ~Record();

  // Throws ConfigError (place: file:line) if the record is malformed or not UTF-8. `raw` must live
  // until the next parse().
  void parse(const RawRecord& raw);

  // The text in a column. Throws ConfigError if there is none, or if the value is no text.
  std::string_view text(std::string_view column) const;
  // The same, but empty if the column is missing or null.
  std::string_view text_or_empty(std::string_view column) const;
  // The texts of a JSON record's list of pairs of texts, such as a history; empty if the value is
  // no list.
  std::vector<std::pair<std::string_view, std::string_view>> pairs(std::string_view column) const;
  // The turns of a JSON record, at least one. A turn is {role, content}, or {from, value} as in
  // ShareGPT. A column of the system's text is the first turn, unless the chat begins with another.
  // Counts the turns and their other keys in `counts`.
  std::vector<Turn> turns(const ColumnsSpec& columns, RecordCounts& counts) const;

  // Counts the columns that are not empty, and that no call above has read since parse().
  void count_unread_columns(RecordCounts& counts) const;

  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  struct Parsed;

  // nullopt if the column is missing or null, or if its name is empty.
  std::optional<std::string_view> find(std::string_view column) const;
  [[noreturn]] void refuse_missing(std::string_view column) const;
  std::string columns_there() const;
  void parse_csv(std::string_view bytes);

  std::string path_;
  RecordFormat format_;
  int64_t line_ = 1;
  std::unique_ptr<Parsed> parsed_;
  mutable std::vector<std::string_view> read_columns_;  // since parse()
};

}  // namespace fsdp
