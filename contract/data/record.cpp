#include <simdjson.h>

#include <algorithm>
#include <deque>

#include "contract/data/chat_turns.h"
#include "contract/data/csv_fields.h"
#include "contract/data/record_json.h"
#include "contract/data/records.h"
#include "contract/text/config_error.h"
#include "contract/text/foreign_json.h"
#include "contract/text/utf8.h"

namespace fsdp {

namespace {

bool is_json(RecordFormat format) {
  return format == RecordFormat::kJsonArray || format == RecordFormat::kJsonLines ||
         format == RecordFormat::kParquet;
}

}  // namespace

struct Record::Parsed {
  simdjson::dom::parser parser;
  simdjson::dom::object object;             // of JSON
  const std::vector<std::string>* columns;  // of CSV
  std::vector<std::string> fields;          // of CSV
  std::string_view line;                    // of text
  std::deque<std::string> joined;           // content in parts
};

Record::Record(const RecordFile& file)
    : path_(file.path().string()), format_(file.format()), parsed_(std::make_unique<Parsed>()) {
  parsed_->columns = &file.header();
  if (parsed_->parser.allocate(1 << 16, kDeepestJson) != simdjson::SUCCESS) throw std::bad_alloc();
}

Record::~Record() = default;

void Record::refuse(const std::string& problem) const {
  throw ConfigError(path_ + ":" + std::to_string(line_), "", shortened(problem, kMostOfMessage));
}

void Record::parse(const RawRecord& raw) {
  line_ = raw.line;
  parsed_->joined.clear();
  if (is_json(format_)) {
    const auto error = parsed_->parser.parse(raw.bytes).get(parsed_->object);
    if (error == simdjson::INCORRECT_TYPE) refuse("is no JSON object");
    if (error == simdjson::UTF8_ERROR) refuse("holds bytes that are not UTF-8");
    if (error != simdjson::SUCCESS) {
      refuse(json_problem(raw.bytes, error));
    }
    if (const auto key = repeated_key(parsed_->object)) refuse("has '" + *key + "' twice");
    return;
  }
  if (!is_utf8(raw.bytes)) refuse("holds bytes that are not UTF-8");
  if (format_ == RecordFormat::kCsv) {
    parse_csv(raw.bytes);
  } else {
    parsed_->line = raw.bytes;
  }
}

void Record::parse_csv(std::string_view bytes) {
  std::vector<std::string>& fields = parsed_->fields;
  if (const std::string problem = split_csv_record(bytes, fields); !problem.empty()) {
    refuse(problem);
  }
  if (fields.size() != parsed_->columns->size()) {
    refuse("has " + std::to_string(fields.size()) +
           " fields; needed: " + std::to_string(parsed_->columns->size()) + " as in the header");
  }
}

std::string_view Record::text_or_empty(std::string_view column) const {
  if (format_ == RecordFormat::kText) return column == "text" ? parsed_->line : "";
  if (format_ == RecordFormat::kCsv) {
    const auto found = std::ranges::find(*parsed_->columns, column);
    if (found == parsed_->columns->end()) return "";
    return parsed_->fields[static_cast<size_t>(found - parsed_->columns->begin())];
  }
  simdjson::dom::element value;
  std::string_view text;
  if (parsed_->object.at_key(column).get(value) != simdjson::SUCCESS || value.is_null()) return "";
  if (value.get(text) != simdjson::SUCCESS) {
    refuse("has something else than text in '" + std::string(column) +
           "': " + std::string(type_name(value)));
  }
  return text;
}

std::string_view Record::text(std::string_view column) const {
  bool is_there = column == "text";  // of lines of text
  if (format_ == RecordFormat::kCsv) {
    is_there = std::ranges::find(*parsed_->columns, column) != parsed_->columns->end();
  } else if (format_ != RecordFormat::kText) {
    simdjson::dom::element value;
    is_there = parsed_->object.at_key(column).get(value) == simdjson::SUCCESS && !value.is_null();
  }
  if (!is_there) refuse_missing(column);
  return text_or_empty(column);
}

std::string Record::columns_there() const {
  if (format_ == RecordFormat::kText) return "no columns, but lines of text";
  return format_ == RecordFormat::kCsv ? list_of_names(*parsed_->columns)
                                       : list_of_keys(parsed_->object);
}

void Record::refuse_missing(std::string_view column) const {
  std::string problem = "has no '" + std::string(column) + "'; it has " + columns_there();
  if (format_ == RecordFormat::kText) refuse(problem);
  if (is_json(format_) && parsed_->object.size() == 1 &&
      parsed_->object.begin().value().is_array()) {
    const std::string key(parsed_->object.begin().key());
    problem += "; if the records are in this list, `jq '.\"" + key +
               "\"' FILE > records.json` takes them out of it";
  }
  refuse(problem + "; data.columns says which column is which");
}

std::vector<Turn> Record::turns(const ColumnsSpec& columns, TurnCounts& counts) const {
  if (!is_json(format_)) refuse("is no JSON or Parquet, which alone hold lists of turns");
  try {
    return read_turns(parsed_->object, columns, counts, parsed_->joined);
  } catch (const MissingColumn& missing) {
    refuse_missing(missing.column);
  } catch (const MalformedChat& error) {
    refuse(error.what());
  }
}

}  // namespace fsdp
