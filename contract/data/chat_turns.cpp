#include "contract/data/chat_turns.h"

#include <string_view>

#include "contract/data/record_json.h"

namespace fsdp {
namespace {

bool is_empty(const simdjson::dom::element& value) {
  std::string_view text;
  if (value.is_array()) return value.get_array().value().size() == 0;
  return value.is_null() ||
         (value.get(text) == simdjson::SUCCESS && (text.empty() || text == "[]"));
}

// True if `object` has something under `key`.
bool has(const simdjson::dom::object& object, std::string_view key) {
  simdjson::dom::element value;
  return object.at_key(key).get(value) == simdjson::SUCCESS && !is_empty(value);
}

// Returns `chosen` if it is given, else `usual` or `share_gpt`, whichever `object` has.
std::string_view name_in(const simdjson::dom::object& object, std::string_view chosen,
                         std::string_view usual, std::string_view share_gpt) {
  if (!chosen.empty()) return chosen;
  return !has(object, usual) && has(object, share_gpt) ? share_gpt : usual;
}

struct TurnReader {
  const ColumnsSpec& columns;
  TurnCounts& counts;
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
    return {.role = text_of(object, role), .content = content_of(object, content)};
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw MalformedChat("turn " + std::to_string(number) + ' ' + problem);
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

std::vector<Turn> read_turns(const simdjson::dom::object& chat, const ColumnsSpec& columns,
                             TurnCounts& counts, std::deque<std::string>& joined) {
  const std::string_view column = name_in(chat, columns.messages, "messages", "conversations");
  simdjson::dom::element value;
  if (chat.at_key(column).get(value) != simdjson::SUCCESS) throw MissingColumn{std::string(column)};
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) {
    throw MalformedChat("has '" + std::string(column) + "' that is " +
                        std::string(type_name(value)) +
                        "; needed: a list of turns, each with role and content");
  }
  if (array.size() == 0) throw MalformedChat("has no turn in '" + std::string(column) + "'");
  for (const std::string_view tools : {"tools", "functions"}) {
    if (has(chat, tools)) {
      throw MalformedChat(
          "has '" + std::string(tools) +
          "', definitions of tools, which no data.format writes; leave such chats out");
    }
  }
  std::vector<Turn> turns;
  TurnReader reader{columns, counts, joined};
  for (const simdjson::dom::element element : array) turns.push_back(reader.read(element));
  return turns;
}

}  // namespace fsdp
