// Refuses mistakes in YAML that yaml-cpp silently accepts.
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_map>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

YAML::Mark mark_at(const std::string& text, size_t at) {
  YAML::Mark mark;
  mark.pos = static_cast<int>(at);
  mark.line = static_cast<int>(std::count(text.begin(), text.begin() + mark.pos, '\n'));
  const size_t line_feed = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  mark.column = static_cast<int>(line_feed == std::string::npos ? at : at - line_feed - 1);
  return mark;
}

std::string hexadecimal(char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const auto value = static_cast<unsigned char>(byte);
  return std::string("0x") + kDigits[value >> 4] + kDigits[value & 15];
}

bool is_utf16(const std::string& text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

// Describes the problem if the character at `at` is not UTF-8 or is a control character. Empty if
// there is none.
std::string problem_of_character(const std::string& text, size_t at) {
  const std::string_view rest = std::string_view(text).substr(at);
  if (is_utf16(text)) return "UTF-16; allowed: text that is saved as UTF-8";
  if (utf8_length(rest) == 0) {
    return "the byte " + hexadecimal(text[at]) +
           ", which is not UTF-8; allowed: text that is saved as UTF-8";
  }
  const bool is_control = static_cast<unsigned char>(rest[0]) < 0x20;
  if (!is_control || rest[0] == '\t' || rest[0] == '\n' || rest.starts_with("\r\n")) return "";
  if (rest[0] == '\r') return "a carriage return without a line feed; allowed: line feeds";
  return "the control character " + hexadecimal(rest[0]) +
         "; allowed: text without any (is this a YAML file?)";
}

void check_characters(const std::string& text, const YamlOrigin& origin) {
  for (size_t at = 0; at < text.size();) {
    if (const std::string problem = problem_of_character(text, at); !problem.empty()) {
      throw ConfigError(place_of(mark_at(text, at), origin), "", "holds " + problem);
    }
    at += utf8_length(std::string_view(text).substr(at));
  }
}

void check_indentation(const std::string& text, const YamlOrigin& origin) {
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = std::string_view(text).substr(start, end - start);
    const size_t first = line.find_first_not_of(" \t\r");
    const size_t tab = line.find('\t');
    if (first != std::string_view::npos && line[first] != '#' && tab < first) {
      throw ConfigError(place_of(mark_at(text, start + tab), origin), "",
                        "a tab indents this line; allowed: spaces");
    }
    start = end + 1;
  }
}

// The position behind the quoted scalar that begins at `at`. npos: its quote is never closed.
size_t end_of_quoted(const std::string& text, size_t at) {
  const char quote = text[at];
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 >= text.size() || text[i + 1] != '\'') return i + 1;
      ++i;  // '' is a quote in the text
    }
  }
  return std::string::npos;
}

constexpr int64_t kMostValues = 1'000'000;

// Refuses mistakes that yaml-cpp accepts silently. After an error of yaml-cpp, it tells which
// bracket or quote was still open.
class SyntaxChecker : public YAML::EventHandler {
 public:
  SyntaxChecker(const std::string& text, const YamlOrigin& origin) : text_(text), origin_(origin) {}

  // The place of the innermost [...] or {...} that is not closed yet. Null: none.
  const YAML::Mark* open_flow() const {
    const bool is_flow = !open_.empty() && open_.back().is_flow;
    return is_flow ? &open_.back().mark : nullptr;
  }
  // The place of the last quoted text, if it continues beyond its line. Null: it does not.
  const YAML::Mark* long_quote() const { return is_long_quote_ ? &last_quote_ : nullptr; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second document begins; allowed: one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    sizes_[anchor] = 1;
    count_values(mark, 1);
    if (is_value_of_map()) check_colon();
    end_node();
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    for (const Collection& collection : open_) {
      if (collection.anchor == anchor) {
        refuse(mark, "an alias stands inside of the value that it repeats");
      }
    }
    key_end_ = std::string::npos;
    count_values(mark, sizes_[anchor]);
    end_node();
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    sizes_[anchor] = 1;
    count_values(mark, 1);
    const size_t at = skip_properties(static_cast<size_t>(mark.pos));
    const bool is_quoted = at < text_.size() && (text_[at] == '"' || text_[at] == '\'');
    size_t end = at + value.size();
    if (is_quoted) {
      end = end_of_quoted(text_, at);
      last_quote_ = mark_at(text_, at);
      if (end == std::string::npos) refuse(last_quote_, "the quote is never closed");
    }
    is_long_quote_ = is_quoted && text_.find('\n', at) < end;
    const bool is_key = !open_.empty() && open_.back().is_map && !open_.back().has_key;
    if (is_key && value == "<<" && !is_quoted) {
      refuse(mark,
             "merge keys (<<) are not supported; write the keys out, or put what runs share into "
             "base");
    }
    key_ = value;
    key_mark_ = mark;
    key_end_ = is_quoted || text_.compare(at, value.size(), value) == 0 ? end : std::string::npos;
    end_node();
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    begin(mark, tag, anchor, style, false);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    begin(mark, tag, anchor, style, true);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  struct Collection {
    YAML::Mark mark;
    YAML::anchor_t anchor;
    bool is_map;
    bool is_flow;
    int64_t values_before;
    bool has_key = false;  // of a map: its key is read, its value is next
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& problem) const {
    throw ConfigError(place_of(mark, origin_), "", problem);
  }

  bool is_value_of_map() const {
    return !open_.empty() && open_.back().is_map && open_.back().has_key;
  }

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
             YAML::EmitterStyle::value style, bool is_map) {
    check_tag(mark, tag);
    open_.push_back({mark, anchor, is_map, style == YAML::EmitterStyle::Flow, values_});
  }

  // Limits the number of values. With lists of aliases of lists, a few lines could stand for more
  // values than fit into memory.
  void count_values(const YAML::Mark& mark, int64_t count) {
    values_ += count;
    if (values_ <= kMostValues) return;
    refuse(mark, "aliases make this more than " + std::to_string(kMostValues) + " values");
  }

  void end() {
    sizes_[open_.back().anchor] = values_ - open_.back().values_before;
    open_.pop_back();
    key_end_ = std::string::npos;
    end_node();
  }

  void end_node() {
    if (!open_.empty() && open_.back().is_map) open_.back().has_key = !open_.back().has_key;
  }

  // yaml-cpp takes a line without a colon for a key without a value.
  void check_colon() const {
    if (key_end_ == std::string::npos) return;
    const size_t next = text_.find_first_not_of(" \t", key_end_);
    if (next != std::string::npos && text_[next] == ':') return;
    refuse(key_mark_, "'" + key_ + "' has no ':' after it; allowed: KEY: VALUE");
  }

  // An unquoted value has the tag "?", a quoted one "!".
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, "tags are not supported; write the value alone, and text in quotes");
  }

  // The position of a scalar behind its anchor or tag.
  size_t skip_properties(size_t at) const {
    while (at < text_.size() && (text_[at] == '&' || text_[at] == '!')) {
      at = std::min(text_.find_first_of(" \t\r\n", at), text_.size());
      at = std::min(text_.find_first_not_of(" \t\r\n", at), text_.size());
    }
    return at;
  }

  const std::string& text_;
  const YamlOrigin& origin_;
  std::vector<Collection> open_;
  std::unordered_map<YAML::anchor_t, int64_t> sizes_;  // number of values in each anchored node
  int64_t values_ = 0;  // read so far; an alias counts as many as its anchor
  int documents_ = 0;
  std::string key_;
  YAML::Mark key_mark_;
  size_t key_end_ = std::string::npos;  // behind the last scalar; npos: unknown
  YAML::Mark last_quote_;
  bool is_long_quote_ = false;
};

// A remedy for an error of yaml-cpp.
struct Remedy {
  std::string_view error;
  std::string_view remedy;
};

std::string explanation(const std::string& error) {
  const std::array kRemedies = {
      Remedy{YAML::ErrorMsg::MAP_VALUE,
             "a ':' where no key can be; the keys of one map begin in one column, and text that "
             "holds ': ' stands in quotes"},
      Remedy{YAML::ErrorMsg::END_OF_MAP,
             "this does not continue the map before it; its keys begin in one column, each with ': "
             "' after it"},
      Remedy{YAML::ErrorMsg::END_OF_SEQ,
             "this does not continue the list before it; its items begin in one column, each with "
             "'- '"},
      Remedy{YAML::ErrorMsg::END_OF_MAP_FLOW, "a ',' or a '}' is missing before it"},
      Remedy{YAML::ErrorMsg::END_OF_SEQ_FLOW, "a ',' or a ']' is missing before it"},
      Remedy{YAML::ErrorMsg::FLOW_END, "a bracket is closed that is not open"},
      Remedy{YAML::ErrorMsg::BLOCK_ENTRY, "a '-' where no item of a list can be"},
      Remedy{YAML::ErrorMsg::UNKNOWN_TOKEN,
             "no value begins with this character; put the value in quotes"},
      Remedy{
          YAML::ErrorMsg::UNKNOWN_ANCHOR,
          "no anchor has this name; '&NAME' marks a value, and '*NAME' after it repeats the value"},
      Remedy{YAML::ErrorMsg::TAB_IN_INDENTATION, "a tab indents this line; allowed: spaces"},
      Remedy{YAML::ErrorMsg::BAD_FILE, "nested too deeply"},
  };
  const auto remedy = std::ranges::find(kRemedies, error, &Remedy::error);
  return remedy == kRemedies.end() ? error : std::string(remedy->remedy);
}

[[noreturn]] void refuse(const YAML::Exception& error, const std::string& text,
                         const YamlOrigin& origin, const SyntaxChecker& checker) {
  YAML::Mark mark = error.mark;
  std::string problem = "not well-formed YAML: " + explanation(error.msg);

  const auto at = static_cast<size_t>(std::max(mark.pos, 0));
  const YAML::Mark* flow = checker.open_flow();
  if (at > 0 && text.compare(at - 1, 2, "${") == 0) {
    problem += "; inside [...] and {...} a value with ${...} stands in quotes";
  } else if (const YAML::Mark* quote = checker.long_quote()) {
    mark = *quote;
    problem = "not well-formed YAML: a quote that is not closed on its line";
  } else if (flow && flow->line != mark.line) {
    // A line without indentation is a new key, so the bracket before it should have been closed.
    const size_t start = at - static_cast<size_t>(mark.column);
    const bool is_new_key = start >= text.size() || text[start] != ' ';
    problem += std::string("; the '") + text[static_cast<size_t>(flow->pos)] + "' is at " +
               place_of(*flow, origin);
    if (is_new_key) {
      problem = std::string("not well-formed YAML: this '") + text[static_cast<size_t>(flow->pos)] +
                "' is not closed";
      mark = *flow;
    }
  }
  throw ConfigError(place_of(mark, origin), "", problem);
}

void check_syntax(const std::string& text, const YamlOrigin& origin) {
  check_characters(text, origin);
  check_indentation(text, origin);
  SyntaxChecker checker(text, origin);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(checker)) {
    }
  } catch (const YAML::Exception& error) {
    refuse(error, text, origin, checker);
  }
}

}  // namespace

YAML::Node parse_yaml(const std::string& text, const YamlOrigin& origin) {
  if (text.starts_with(kByteOrderMark)) {
    return parse_yaml(text.substr(kByteOrderMark.size()), origin);
  }
  check_syntax(text, origin);
  return YAML::Load(text);
}

}  // namespace fsdp
