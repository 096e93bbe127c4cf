// Parses one record of a file. An error names the line, and the columns that are there.
#include <simdjson.h>

#include <algorithm>
#include <deque>

#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/utf8.h"
#include "formats/data/document_maker.h"

namespace fsdp {
namespace {

// Finds the escape of an unpaired surrogate, such as \ud83d without its other half. Empty if there
// is none.
std::string_view lone_surrogate(std::string_view json) {
  const auto is_half = [&](size_t at, std::string_view thirds) {
    const std::string_view escape = json.substr(std::min(at, json.size()), 6);
    return escape.size() == 6 && escape.starts_with("\\u") && (escape[2] | 32) == 'd' &&
           thirds.find(static_cast<char>(escape[3] | 32)) != std::string_view::npos;
  };
  for (size_t at = 0; (at = json.find('\\', at)) != std::string_view::npos;) {
    if (is_half(at, "89ab") && is_half(at + 6, "cdef")) {
      at += 12;
    } else if (is_half(at, "89abcdef")) {
      return json.substr(at, 6);
    } else {
      at += 2;
    }
  }
  return "";
}

// Returns NaN or Infinity if `json` has it outside of strings, as Python writes it; else empty.
std::string_view unknown_number(std::string_view json) {
  bool is_quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (is_quoted && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted) {
      for (const std::string_view number : {"NaN", "Infinity"}) {
        if (json.substr(i).starts_with(number)) return number;
      }
    }
  }
  return "";
}

void append_name(std::string& list, std::string_view name, std::string_view of_what) {
  constexpr size_t kMostOfName = 60;
  if (list.size() > kMostOfMessage) return;
  list += list.empty() ? "'" : ", '";
  list += shortened(name, kMostOfName);
  list += "'";
  list += of_what;
}

// Describes a text that simdjson refuses: "is not JSON: it holds NaN, ...".
std::string json_problem(std::string_view json, simdjson::error_code error) {
  if (const std::string_view half = lone_surrogate(json); !half.empty()) {
    return "holds " + std::string(half) +
           ", half of a surrogate pair, which is no character; write the whole character, or leave "
           "it out";
  }
  if (const std::string_view number = unknown_number(json); !number.empty()) {
    return "is not JSON: it holds " + std::string(number) +
           ", which JSON does not know; write null";
  }
  int64_t open = 0;
  visit_json_brackets(json, [&](size_t, int64_t depth) {
    open = depth;
    return true;
  });
  if (error == simdjson::DEPTH_ERROR) {
    return "is not JSON of at most " + std::to_string(kDeepestJson) + " levels";
  }
  if (error == simdjson::UNCLOSED_STRING) return "is not JSON: a text in it does not end";
  if (error == simdjson::UNESCAPED_CHARS) {
    return "is not JSON: a text in it has a control character that is not escaped";
  }
  if (error == simdjson::STRING_ERROR) return "is not JSON: a text in it has an unknown escape";
  if (error == simdjson::NUMBER_ERROR) return "is not JSON: it holds a malformed number";
  if (open > 0) return "is not JSON: it ends before its object does";
  return "is not JSON: a bracket, comma, colon or quote is missing or too many";
}

// "a list", "a number".
std::string_view type_name(const simdjson::dom::element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return "text";
    case simdjson::dom::element_type::BOOL:
      return "true or false";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// "'id', 'messages' (a list)"; "no columns" if there are none.
std::string list_of_keys(const simdjson::dom::object& object) {
  std::string list;
  for (const auto& [key, value] : object) {
    append_name(list, key, value.is_array() ? " (a list)" : "");
  }
  return list.empty() ? "no columns" : list;
}

std::string list_of_names(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) append_name(list, name, "");
  return list.empty() ? "no columns" : list;
}

// Reads a field after its opening quote. Returns false if the closing quote is missing.
bool read_quoted(std::string_view& rest, std::string& field) {
  while (true) {
    const size_t length = rest.find('"');
    if (length == std::string_view::npos) return false;
    field += rest.substr(0, length);
    rest.remove_prefix(length + 1);
    if (!rest.starts_with('"')) return true;
    field += '"';
    rest.remove_prefix(1);
  }
}

bool is_json(RecordFormat format) {
  return format == RecordFormat::kJsonArray || format == RecordFormat::kJsonLines ||
         format == RecordFormat::kParquet;
}

bool is_empty(const simdjson::dom::element& value) {
  std::string_view text;
  if (value.is_array()) return value.get_array().value().size() == 0;
  return value.is_null() ||
         (value.get(text) == simdjson::SUCCESS && (text.empty() || text == "[]"));
}

// True if `object` has a value under `key` that is not empty.
bool has(const simdjson::dom::object& object, std::string_view key) {
  simdjson::dom::element value;
  return object.at_key(key).get(value) == simdjson::SUCCESS && !is_empty(value);
}

// Returns `chosen` if it is given, else `usual` or `share_gpt`, whichever `object` has: with a
// value, or else without one.
std::string_view name_in(const simdjson::dom::object& object, std::string_view chosen,
                         std::string_view usual, std::string_view share_gpt) {
  if (!chosen.empty()) return chosen;
  const auto is_there = [&](std::string_view key) {
    return object.at_key(key).error() == simdjson::SUCCESS;
  };
  if (has(object, usual) || (is_there(usual) && !has(object, share_gpt))) return usual;
  return is_there(share_gpt) ? share_gpt : usual;
}

struct TurnReader {
  const Record& record;
  const ColumnsSpec& columns;
  RecordCounts& counts;
  std::deque<std::string>& joined;
  size_t number = 0;  // of the turn, from 1

  Turn read(const simdjson::dom::element& element) {
    ++number;
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS) {
      refuse("is " + std::string(type_name(element)) + ", not an object");
    }
    if (const auto key = repeated_key(object)) refuse("has '" + *key + "' twice");
    const std::string_view role = name_in(object, columns.role, "role", "from");
    const std::string_view content = name_in(object, columns.content, "content", "value");
    for (const std::string_view call : {"tool_calls", "function_call"}) {
      if (has(object, call)) {
        refuse("has '" + std::string(call) +
               "', which no data.format writes; leave such chats out");
      }
    }
    for (const auto& [key, value] : object) {
      if (key != role && key != content && !is_empty(value)) counts.add_unread_key(key);
    }
    return {.role = counts.add_turn(text_of(object, role)), .content = content_of(object, content)};
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    record.refuse("turn " + std::to_string(number) + ' ' + problem);
  }

  std::string_view text_of(const simdjson::dom::object& object, std::string_view key) const {
    simdjson::dom::element value;
    if (object.at_key(key).get(value) != simdjson::SUCCESS) refuse_missing(object, key);
    return text_of(value, "has '" + std::string(key) + "' ");
  }

  std::string_view text_of(const simdjson::dom::element& value, const std::string& where) const {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) return text;
    refuse(where + "that is " + std::string(type_name(value)) + "; needed: text");
  }

  // Joins the texts if the content is a list of parts, {type: text, text: ...}.
  std::string_view content_of(const simdjson::dom::object& object, std::string_view key) const {
    simdjson::dom::array parts;
    if (object.at_key(key).get(parts) != simdjson::SUCCESS) return text_of(object, key);
    std::string& whole = joined.emplace_back();
    for (const simdjson::dom::element part : parts) {
      std::string_view type;
      std::string_view text;
      if (part.get(text) == simdjson::SUCCESS) {
        whole += text;
        continue;
      }
      simdjson::dom::element value;
      if (part.at_key("type").get(type) == simdjson::SUCCESS && type != "text") {
        refuse("has a part of type '" + std::string(type) + "'; only parts of type text are read");
      }
      if (part.at_key("text").get(value) != simdjson::SUCCESS) refuse("has a part without 'text'");
      whole += text_of(value, "has a part with a 'text' ");
    }
    return whole;
  }

  [[noreturn]] void refuse_missing(const simdjson::dom::object& object,
                                   std::string_view key) const {
    refuse("has no '" + std::string(key) + "'; it has " + list_of_keys(object) +
           "; data.columns says which key is the role and which the content");
  }
};

}  // namespace

std::string split_csv_record(std::string_view rest, std::vector<std::string>& fields) {
  size_t count = 0;
  while (true) {
    if (count == fields.size()) fields.emplace_back();
    std::string& field = fields[count++];
    field.clear();
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      if (!read_quoted(rest, field)) return "a quoted field without its closing quote";
    } else {
      const size_t length = std::min(rest.find_first_of(",\r\n\""), rest.size());
      field = rest.substr(0, length);
      rest.remove_prefix(length);
      if (rest.starts_with('"')) return "a quote inside a field that does not start with one";
    }
    if (!rest.starts_with(',')) break;
    rest.remove_prefix(1);
  }
  fields.resize(count);
  if (rest.empty() || rest == "\n" || rest == "\r\n") return "";
  if (!rest.starts_with('\r')) return "text after a closing quote";
  return "a line that ends in a carriage return alone; `tr '\\r' '\\n' <FILE >OTHER.csv` ends "
         "lines "
         "in line feeds";
}

size_t csv_record_length(std::string_view text, size_t most) {
  bool is_quoted = false;
  const size_t end = std::min(text.size(), most);
  for (size_t i = 0; i < end;) {
    const size_t found = is_quoted ? text.find('"', i) : text.find_first_of("\"\n", i);
    if (found == std::string_view::npos || found >= end) break;
    if (text[found] == '\n') return found + 1;
    is_quoted = !is_quoted;
    i = found + 1;
  }
  return is_quoted || text.size() > most ? std::string_view::npos : text.size();
}

struct Record::Parsed {
  simdjson::dom::parser parser;
  simdjson::dom::object object;             // of JSON
  const std::vector<std::string>* columns;  // of CSV
  std::vector<std::string> fields;          // of CSV
  std::string_view line;                    // of text
  std::deque<std::string> joined;           // contents that came in parts
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
  read_columns_.clear();
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

std::optional<std::string_view> Record::find(std::string_view column) const {
  if (column.empty()) return std::nullopt;
  read_columns_.push_back(column);
  if (format_ == RecordFormat::kText) {
    return column == "text" ? std::optional(parsed_->line) : std::nullopt;
  }
  if (format_ == RecordFormat::kCsv) {
    const auto found = std::ranges::find(*parsed_->columns, column);
    if (found == parsed_->columns->end()) return std::nullopt;
    return parsed_->fields[static_cast<size_t>(found - parsed_->columns->begin())];
  }
  simdjson::dom::element value;
  std::string_view text;
  if (parsed_->object.at_key(column).get(value) != simdjson::SUCCESS || value.is_null()) {
    return std::nullopt;
  }
  if (value.get(text) != simdjson::SUCCESS) {
    refuse("has something else than text in '" + std::string(column) +
           "': " + std::string(type_name(value)));
  }
  return text;
}

std::string_view Record::text_or_empty(std::string_view column) const {
  return find(column).value_or("");
}

std::string_view Record::text(std::string_view column) const {
  const auto found = find(column);
  if (!found) refuse_missing(column);
  return *found;
}

std::string Record::columns_there() const {
  if (format_ == RecordFormat::kText) return "no columns, but lines of text";
  return format_ == RecordFormat::kCsv ? list_of_names(*parsed_->columns)
                                       : list_of_keys(parsed_->object);
}

void Record::refuse_missing(std::string_view column) const {
  if (is_json(format_) && parsed_->object.at_key(column).error() == simdjson::SUCCESS) {
    refuse("has null as '" + std::string(column) + "'; leave such records out, or write a value");
  }
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

std::vector<Turn> Record::turns(const ColumnsSpec& columns, RecordCounts& counts) const {
  if (!is_json(format_)) refuse("is no JSON or Parquet, which alone hold lists of turns");
  const simdjson::dom::object& chat = parsed_->object;
  const std::string_view name = name_in(chat, columns.messages, "messages", "conversations");
  const std::string column(name);
  read_columns_.push_back(name);
  simdjson::dom::element value;
  if (chat.at_key(column).get(value) != simdjson::SUCCESS) refuse_missing(column);
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) {
    refuse("has '" + column + "' that is " + std::string(type_name(value)) +
           "; needed: a list of turns, each with role and content");
  }
  if (array.size() == 0) refuse("has no turn in '" + column + "'");
  for (const std::string_view tools : {"tools", "functions"}) {
    if (has(chat, tools)) {
      refuse("has '" + std::string(tools) +
             "', definitions of tools, which no data.format writes; leave such chats out");
    }
  }
  std::vector<Turn> turns;
  TurnReader reader{*this, columns, counts, parsed_->joined};
  for (const simdjson::dom::element element : array) turns.push_back(reader.read(element));
  if (turns.front().role == "system") return turns;
  if (const std::string_view system = text_or_empty(columns.system); !system.empty()) {
    turns.insert(turns.begin(), {.role = counts.add_turn("system"), .content = system});
  }
  return turns;
}

std::vector<std::pair<std::string_view, std::string_view>> Record::pairs(
    std::string_view column) const {
  simdjson::dom::array array;
  if (!is_json(format_) || parsed_->object.at_key(column).get(array) != simdjson::SUCCESS)
    return {};
  read_columns_.push_back(column);
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const simdjson::dom::element element : array) {
    simdjson::dom::array both;
    auto& [first, second] = pairs.emplace_back();
    if (element.get(both) != simdjson::SUCCESS || both.size() != 2 ||
        both.at(0).get(first) != simdjson::SUCCESS || both.at(1).get(second) != simdjson::SUCCESS) {
      refuse("has '" + std::string(column) + "' with an element " + std::to_string(pairs.size()) +
             " that is no list of two texts, a question and its answer");
    }
  }
  return pairs;
}

void Record::count_unread_columns(RecordCounts& counts) const {
  const auto count = [&](std::string_view column, bool is_empty) {
    if (!is_empty && std::ranges::find(read_columns_, column) == read_columns_.end()) {
      counts.add_unread_column(column);
    }
  };
  if (format_ == RecordFormat::kCsv) {
    for (size_t i = 0; i < parsed_->fields.size(); ++i) {
      count((*parsed_->columns)[i], parsed_->fields[i].empty());
    }
  } else if (is_json(format_)) {
    for (const auto& [key, value] : parsed_->object) count(key, is_empty(value));
  }
}

}  // namespace fsdp
