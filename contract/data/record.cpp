#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "contract/data/csv_fields.h"
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
  std::vector<std::string_view> keys;       // of JSON, sorted
  std::vector<std::string> fields;          // of CSV
  std::string_view line;                    // of text

  // A key that the object has twice: of these, readers of JSON take the first or the last.
  std::optional<std::string> repeated_key(const simdjson::dom::object& object) {
    keys.clear();
    for (const auto& [key, value] : object) keys.push_back(key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    return twice == keys.end() ? std::nullopt : std::optional<std::string>(*twice);
  }
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
  if (is_json(format_)) {
    const auto error = parsed_->parser.parse(raw.bytes).get(parsed_->object);
    if (error == simdjson::INCORRECT_TYPE) refuse("is no JSON object");
    if (error == simdjson::UTF8_ERROR) refuse("holds bytes that are not UTF-8");
    if (error != simdjson::SUCCESS) {
      refuse(std::string("is not JSON: ") + simdjson::error_message(error));
    }
    if (const auto key = parsed_->repeated_key(parsed_->object)) refuse("has '" + *key + "' twice");
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
    refuse("has something else than text in '" + std::string(column) + "'");
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
  if (!is_there) refuse("has no '" + std::string(column) + "'");
  return text_or_empty(column);
}

std::vector<Turn> Record::turns(std::string_view column) const {
  simdjson::dom::array array;
  if (!is_json(format_) || parsed_->object.at_key(column).get(array) != simdjson::SUCCESS) {
    refuse("has no list '" + std::string(column) + "' of JSON objects with role and content");
  }
  std::vector<Turn> turns;
  for (const simdjson::dom::element element : array) {
    Turn turn;
    if (element.at_key("role").get(turn.role) != simdjson::SUCCESS ||
        element.at_key("content").get(turn.content) != simdjson::SUCCESS) {
      refuse("has a turn in '" + std::string(column) + "' without the texts role and content");
    }
    if (const auto key = parsed_->repeated_key(element.get_object().value())) {
      refuse("has a turn in '" + std::string(column) + "' with '" + *key + "' twice");
    }
    turns.push_back(turn);
  }
  return turns;
}

}  // namespace fsdp
