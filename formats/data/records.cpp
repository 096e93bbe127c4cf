// Cuts files into records without parsing them. Memory does not grow with the file.
#include "formats/data/records.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/utf8.h"
#include "base/text/white_space.h"

namespace fsdp {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kWhiteSpace = " \t\r\n";  // of JSON

[[noreturn]] void refuse_line(const std::filesystem::path& file, int64_t line,
                              const std::string& problem) {
  throw ConfigError(file.string() + ":" + std::to_string(line), "", problem);
}

// Refuses repeated names. Several columns may have no name, because such columns are never read.
void check_columns(const std::filesystem::path& file, int64_t line,
                   std::vector<std::string> columns) {
  std::ranges::sort(columns);
  std::erase(columns, "");
  const auto twice = std::ranges::adjacent_find(columns);
  if (twice != columns.end()) refuse_line(file, line, "has the column '" + *twice + "' twice");
}

RecordFormat format_of(const std::filesystem::path& path, std::string_view text) {
  const std::string extension = path.extension();
  if (extension == ".csv") return RecordFormat::kCsv;
  if (extension == ".jsonl" || extension == ".ndjson") return RecordFormat::kJsonLines;
  if (extension == ".txt") return RecordFormat::kText;
  if (extension == ".parquet" || text.starts_with("PAR1")) return RecordFormat::kParquet;
  const size_t begin = std::min(text.find_first_not_of(kWhiteSpace), text.size());
  if (text.substr(begin).starts_with('[')) return RecordFormat::kJsonArray;
  if (extension == ".json" || text.substr(begin).starts_with('{')) return RecordFormat::kJsonLines;
  return RecordFormat::kCsv;
}

// The length of the JSON object at the start of `text`; npos if it does not end.
size_t object_length(std::string_view text) {
  size_t length = std::string_view::npos;
  visit_json_brackets(text, [&](size_t place, int64_t depth) {
    if (depth == 0) length = place + 1;
    return depth != 0;
  });
  return length;
}

// Refuses columns separated by something other than commas.
void check_separator(const std::filesystem::path& file, const RawRecord& header) {
  std::string columns = header.bytes.substr(0, header.bytes.find_last_not_of("\r\n") + 1);
  const size_t found = columns.find_first_of(";\t|");
  if (found == std::string::npos || columns.find(',') != std::string::npos) return;
  const char separator = columns[found];
  for (size_t at = 0; (at = columns.find(separator, at)) != std::string::npos; at += 2) {
    columns.replace(at, 1, ", ");
  }
  const std::string shown = separator == '\t' ? "\\t" : std::string(1, separator);
  refuse_line(file, header.line,
              "has its columns separated by '" + shown + "', not by commas: " + columns +
                  "; `python3 -c \"import pandas; pandas.read_csv('FILE', sep='" + shown +
                  "').to_csv('OTHER.csv', index=False)\"` writes it with commas");
}

// The first key of an object if its value is a list, as in `{"data": [`; else empty.
std::string_view list_at_begin(std::string_view object) {
  const auto skip = [&](char expected) {
    object.remove_prefix(std::min(object.find_first_not_of(kWhiteSpace), object.size()));
    if (!object.starts_with(expected)) return false;
    object.remove_prefix(1);
    return true;
  };
  if (!skip('{') || !skip('"')) return "";
  const std::string_view name = object.substr(0, object.find('"'));
  object.remove_prefix(std::min(name.size() + 1, object.size()));
  return skip(':') && skip('[') ? name : "";
}

// Refuses a file if its first object spans several lines.
void check_first_line(const std::filesystem::path& file, std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with('{')) return;
  if (object_length(text.substr(0, end)) != std::string_view::npos) return;
  std::string problem =
      "an object that does not end in its line; needed: one object a line, or a JSON array of "
      "objects. `jq -c . FILE > OTHER.jsonl` writes each object on one line";
  if (const std::string_view list = list_at_begin(text); !list.empty()) {
    problem += "; if the records stand in its list '" + std::string(list) + "', `jq '.\"" +
               std::string(list) + "\"' FILE > OTHER.json` writes these";
  }
  refuse_line(file, 1, problem);
}

struct KnownContents {
  std::string_view begin;
  std::string_view what;
  std::string_view command;
};

constexpr KnownContents kPacked[] = {
    {"\x1f\x8b\x08"sv, "compressed by gzip", "gunzip --keep FILE"},
    {"\x28\xb5\x2f\xfd"sv, "compressed by Zstandard", "zstd --decompress FILE"},
    {"\xfd\x37zXZ\0"sv, "compressed by xz", "unxz --keep FILE"},
    {"\x04\x22\x4d\x18"sv, "compressed by LZ4", "lz4 -d FILE"},
    {"PK\x03\x04"sv, "a zip archive", "unzip FILE"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x FILE"},
};

constexpr KnownContents kEncodings[] = {
    {"\xff\xfe\0\0"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > OTHER"},
    {"\xff\xfe"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > OTHER"},
    {"\xfe\xff"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > OTHER"},
};

[[noreturn]] void refuse_as(const std::filesystem::path& path, std::string_view what,
                            std::string_view command) {
  refuse_file(path, "is " + std::string(what) + "; `" + std::string(command) +
                        "` makes it a file that can be read");
}

void refuse_known(const std::filesystem::path& path, std::string_view begin,
                  std::span<const KnownContents> all) {
  for (const KnownContents& known : all) {
    if (begin.starts_with(known.begin)) refuse_as(path, known.what, known.command);
  }
}

const std::string kTooLong = "a record of more than " + std::to_string(kMostRecordBytes) + " bytes";

}  // namespace

void refuse_packed(const std::filesystem::path& path, std::string_view begin) {
  refuse_known(path, begin, kPacked);
  // The byte between the two is the compression level.
  if (begin.starts_with("BZh") && begin.substr(4).starts_with("1AY&")) {
    refuse_as(path, "compressed by bzip2", "bunzip2 --keep FILE");
  }
}

void refuse_other_encoding(const std::filesystem::path& path, std::string_view begin) {
  refuse_known(path, begin, kEncodings);
  // UTF-16 without a byte order mark: every second byte of Latin letters is 0.
  if (begin.size() < 4) return;
  const bool is_little = begin[0] != 0 && begin[1] == 0 && begin[2] != 0 && begin[3] == 0;
  const bool is_big = begin[0] == 0 && begin[1] != 0 && begin[2] == 0 && begin[3] != 0;
  if (!is_little && !is_big) return;
  refuse_as(path, "text in UTF-16",
            is_little ? "iconv -f UTF-16LE -t UTF-8 FILE > OTHER"
                      : "iconv -f UTF-16BE -t UTF-8 FILE > OTHER");
}

RecordFile::RecordFile(const std::filesystem::path& path) : file_(path) { begin(); }

RecordFile::RecordFile(const std::filesystem::path& path, std::string_view text)
    : file_(path, std::as_bytes(std::span(text))) {
  begin();
}

void RecordFile::begin() {
  load(kKnownContentsBytes);
  refuse_packed(path(), rest());
  refuse_other_encoding(path(), rest());
  if (rest().starts_with(kByteOrderMark)) taken_ = kByteOrderMark.size();
  find_in_rest([](std::string_view text) { return text.find_first_not_of(kWhiteSpace); });
  format_ = format_of(path(), rest());
  RawRecord header;
  if (format_ == RecordFormat::kCsv) {
    if (!next_of_csv(header)) {
      refuse_file(path(), "is empty; needed: a line with its columns' names");
    }
    check_separator(path(), header);
    const std::string problem = split_csv_record(header.bytes, header_);
    if (!problem.empty()) refuse_line(path(), header.line, problem);
    check_columns(path(), header.line, header_);
  } else if (format_ == RecordFormat::kJsonArray) {
    skip_white_space();
    take(1);
  } else if (format_ == RecordFormat::kJsonLines) {
    const size_t begin = std::min(rest().find_first_not_of(kWhiteSpace), rest().size());
    check_first_line(path(), rest().substr(begin));
  } else if (format_ == RecordFormat::kParquet) {
    opened_as_ = state_of(path(), file_.descriptor());
    rows_ = open_parquet_rows(file_);
  }
}

// Loads until rest() holds `bytes` bytes, or all that the file still has.
void RecordFile::load(size_t bytes) {
  if (rest().size() >= bytes || is_all_in_buffer()) return;
  buffer_.erase(0, taken_);
  taken_ = 0;
  const size_t before = buffer_.size();
  const size_t wanted = std::max(bytes, InputFile::kBlockBytes) - before;
  const size_t count = std::min<uint64_t>(wanted, file_.size_bytes() - loaded_bytes_);
  buffer_.resize(before + count);
  const auto loaded = std::as_writable_bytes(std::span(buffer_)).subspan(before);
  file_.read(loaded_bytes_, loaded);
  digest_.add(loaded);
  loaded_bytes_ += count;
}

// Returns the place that find(rest()) finds, or npos if there is none up to the end of the file or
// within kMostRecordBytes. Each try has twice as much text, so all tries together take linear time.
template <typename Find>
size_t RecordFile::find_in_rest(Find find) {
  while (true) {
    const size_t found = find(rest());
    if (found != std::string_view::npos || is_all_in_buffer()) return found;
    if (rest().size() > kMostRecordBytes) return found;
    load(std::min(2 * rest().size() + 1, kMostRecordBytes + 1));
  }
}

int64_t RecordFile::read_bytes() const {
  if (!rows_) return static_cast<int64_t>(loaded_bytes_ - rest().size());
  const double part = double(line_ - 1) / double(std::max<int64_t>(rows_->count(), 1));
  return int64_t(part * double(size_bytes()));
}

std::string RecordFile::digest() {
  if (!rows_) return digest_.text();
  Digest whole;
  if (const int error = whole.add_file(file_.descriptor()); error != 0) {
    refuse_unreadable(path(), {error, std::generic_category()});
  }
  if (!is_untouched(*opened_as_, state_of(path(), file_.descriptor()))) refuse_changed(path());
  return whole.text();
}

bool RecordFile::next(RawRecord& record) {
  switch (format_) {
    case RecordFormat::kCsv:
      return next_of_csv(record);
    case RecordFormat::kJsonArray:
      return next_of_array(record);
    case RecordFormat::kJsonLines:
    case RecordFormat::kText:
      return next_line(record);
    case RecordFormat::kParquet:
      return next_row(record);
  }
  return false;
}

void RecordFile::take(size_t bytes) {
  line_ += std::ranges::count(rest().substr(0, bytes), '\n');
  taken_ += bytes;
}

// Skips white space, up to the next character or the end of the file.
void RecordFile::skip_white_space() {
  do {
    load(1);
    take(std::min(rest().find_first_not_of(kWhiteSpace), rest().size()));
  } while (rest().empty() && !is_all_in_buffer());
}

bool RecordFile::next_of_csv(RawRecord& record) {
  while (load(1), !rest().empty()) {
    const size_t length = find_in_rest([&](std::string_view text) {
      const size_t end = csv_record_length(text, kMostRecordBytes);
      const bool may_go_on = end == text.size() && !text.ends_with('\n') && !is_all_in_buffer();
      return may_go_on ? std::string_view::npos : end;
    });
    if (length == std::string_view::npos) {
      refuse_line(path(), line_,
                  rest().size() > kMostRecordBytes ? kTooLong + "; is a quote not closed?"
                                                   : "a quoted field without its closing quote");
    }
    record.bytes = rest().substr(0, length);
    record.line = line_;
    take(length);
    if (record.bytes.find_first_not_of("\r\n") != std::string::npos) return true;
  }
  return false;
}

bool RecordFile::next_of_array(RawRecord& record) {
  if (is_at_end_) return false;
  skip_white_space();
  if (rest().starts_with(']')) {
    take(1);
    skip_white_space();
    if (!rest().empty()) refuse_line(path(), line_, "text after the end of the array");
    is_at_end_ = true;
    return false;
  }
  if (rest().empty()) refuse_line(path(), line_, "the array does not end; the file is cut short");
  if (has_elements_) {
    if (!rest().starts_with(',')) refuse_line(path(), line_, "no comma between two records");
    take(1);
    skip_white_space();
  }
  if (!rest().starts_with('{')) refuse_line(path(), line_, "an element that is no JSON object");
  const size_t length = find_in_rest(
      [](std::string_view text) { return object_length(text.substr(0, kMostRecordBytes)); });
  if (length == std::string_view::npos) {
    refuse_line(path(), line_,
                rest().size() > kMostRecordBytes
                    ? kTooLong
                    : "a record that does not end; the file is cut short");
  }
  record.bytes = rest().substr(0, length);
  record.line = line_;
  take(length);
  has_elements_ = true;
  return true;
}

bool RecordFile::next_line(RawRecord& record) {
  while (load(1), !rest().empty()) {
    const size_t end = find_in_rest([](std::string_view text) { return text.find('\n'); });
    const size_t length = std::min(end, rest().size() - 1) + 1;
    if (length > kMostRecordBytes) refuse_line(path(), line_, kTooLong);
    record.bytes = rest().substr(0, length);
    record.line = line_;
    take(length);
    while (record.bytes.ends_with('\n') || record.bytes.ends_with('\r')) record.bytes.pop_back();
    if (!stripped(record.bytes).empty()) return true;
  }
  return false;
}

bool RecordFile::next_row(RawRecord& record) {
  try {
    if (!rows_->next(record.bytes)) {
      if (line_ - 1 == rows_->count()) return false;
      throw std::runtime_error("the end of the file says " + std::to_string(rows_->count()) +
                               " rows");
    }
  } catch (const std::runtime_error& error) {
    refuse_line(path(), line_, std::string("a row that cannot be read: ") + error.what());
  }
  if (record.bytes.size() > kMostRecordBytes) refuse_line(path(), line_, kTooLong);
  record.line = line_++;
  return true;
}

}  // namespace fsdp
