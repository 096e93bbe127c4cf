#include "contract/data/records.h"

#include <algorithm>

#include "contract/data/csv_fields.h"
#include "contract/text/config_error.h"
#include "contract/text/foreign_json.h"

namespace fsdp {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

[[noreturn]] void refuse_line(const std::filesystem::path& file, int64_t line,
                              const std::string& problem) {
  throw ConfigError(file.string() + ":" + std::to_string(line), "", problem);
}

// Columns without a name, of which there may be several, are never read.
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

// How long the JSON value is that `text` begins with, an object; npos: it does not end.
size_t object_length(std::string_view text) {
  size_t length = std::string_view::npos;
  visit_json_brackets(text, [&](size_t place, int64_t depth) {
    if (depth == 0) length = place + 1;
    return depth != 0;
  });
  return length;
}

const std::string kTooLong = "a record of more than " + std::to_string(kMostRecordBytes) + " bytes";

}  // namespace

RecordFile::RecordFile(const std::filesystem::path& path)
    : path_(path), file_(map_input_file(path)), text_(file_->text()) {
  begin();
}

RecordFile::RecordFile(const std::filesystem::path& path, std::string_view text)
    : path_(path), text_(text) {
  begin();
}

void RecordFile::begin() {
  rest_ = text_;
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);  // byte order mark
  format_ = format_of(path_, rest_);
  RawRecord header;
  if (format_ == RecordFormat::kCsv) {
    if (!next_of_csv(header)) {
      refuse_file(path_, "is empty; needed: a line with its columns' names");
    }
    const std::string problem = split_csv_record(header.bytes, header_);
    if (!problem.empty()) refuse_line(path_, header.line, problem);
    check_columns(path_, header.line, header_);
  } else if (format_ == RecordFormat::kJsonArray) {
    skip_white_space();
    take(1);
  } else if (format_ == RecordFormat::kParquet) {
    rows_ = open_parquet_rows(path_);
  }
}

int64_t RecordFile::read_bytes() const {
  if (!rows_) return size_bytes() - std::ssize(rest_);
  const double part = double(line_ - 1) / double(std::max<int64_t>(rows_->count(), 1));
  return int64_t(part * double(size_bytes()));
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
  line_ += std::ranges::count(rest_.substr(0, bytes), '\n');
  rest_.remove_prefix(bytes);
}

void RecordFile::skip_white_space() {
  take(std::min(rest_.find_first_not_of(kWhiteSpace), rest_.size()));
}

bool RecordFile::next_of_csv(RawRecord& record) {
  while (!rest_.empty()) {
    const size_t length = csv_record_length(rest_, kMostRecordBytes);
    if (length == std::string_view::npos) {
      refuse_line(path_, line_,
                  rest_.size() > kMostRecordBytes ? kTooLong + "; is a quote not closed?"
                                                  : "a quoted field without its closing quote");
    }
    record = {.bytes = rest_.substr(0, length), .line = line_, .row = nullptr};
    take(length);
    if (record.bytes.find_first_not_of("\r\n") != std::string_view::npos) return true;
  }
  return false;
}

bool RecordFile::next_of_array(RawRecord& record) {
  if (is_at_end_) return false;
  skip_white_space();
  if (rest_.starts_with(']')) {
    take(1);
    skip_white_space();
    if (!rest_.empty()) refuse_line(path_, line_, "text behind the end of the array");
    is_at_end_ = true;
    return false;
  }
  if (rest_.empty()) refuse_line(path_, line_, "the array does not end; the file is cut short");
  if (has_elements_) {
    if (!rest_.starts_with(',')) refuse_line(path_, line_, "no comma between two records");
    take(1);
    skip_white_space();
  }
  if (!rest_.starts_with('{')) refuse_line(path_, line_, "an element that is no JSON object");
  const size_t length = object_length(rest_.substr(0, kMostRecordBytes));
  if (length == std::string_view::npos) {
    refuse_line(path_, line_,
                rest_.size() > kMostRecordBytes
                    ? kTooLong
                    : "a record that does not end; the file is cut short");
  }
  record = {.bytes = rest_.substr(0, length), .line = line_, .row = nullptr};
  take(length);
  has_elements_ = true;
  return true;
}

bool RecordFile::next_line(RawRecord& record) {
  while (!rest_.empty()) {
    const size_t length = std::min(rest_.find('\n'), rest_.size() - 1) + 1;
    if (length > kMostRecordBytes) refuse_line(path_, line_, kTooLong);
    record = {.bytes = rest_.substr(0, length), .line = line_, .row = nullptr};
    take(length);
    while (record.bytes.ends_with('\n') || record.bytes.ends_with('\r')) {
      record.bytes.remove_suffix(1);
    }
    if (record.bytes.find_first_not_of(kWhiteSpace) != std::string_view::npos) return true;
  }
  return false;
}

bool RecordFile::next_row(RawRecord& record) {
  std::string row;
  try {
    if (!rows_->next(row)) {
      if (line_ - 1 == rows_->count()) return false;
      throw std::runtime_error("its end says " + std::to_string(rows_->count()) + " rows");
    }
  } catch (const std::runtime_error& error) {
    refuse_line(path_, line_, std::string("a row that cannot be read: ") + error.what());
  }
  if (row.size() > kMostRecordBytes) refuse_line(path_, line_, kTooLong);
  record.row = std::make_shared<const std::string>(std::move(row));
  record.bytes = *record.row;
  record.line = line_++;
  return true;
}

void RecordFile::forget_before(const RawRecord& record) {
  if (rows_) return;
  constexpr size_t kStep = 8 << 20;
  const auto bytes = static_cast<size_t>(record.bytes.data() - text_.data());
  if (!file_ || bytes < forgotten_bytes_ + kStep) return;
  file_->forget(forgotten_bytes_, bytes - forgotten_bytes_);
  forgotten_bytes_ = bytes;
}

}  // namespace fsdp
