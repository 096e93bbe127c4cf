#include <simdjson.h>

#include <stdexcept>

#include "contract/record/event.h"

namespace fsdp {
namespace {

using Body = decltype(Event::body);

[[noreturn]] void fail(std::string_view key, simdjson::error_code code) {
  std::string message = "not an event: ";
  if (!key.empty()) message.append("'").append(key).append("': ");
  throw std::runtime_error(message + simdjson::error_message(code));
}

void check(std::string_view key, simdjson::error_code code) {
  if (code != simdjson::SUCCESS) fail(key, code);
}

// The members of an object. Reading them in the order of writing is fast.
class Members {
 public:
  explicit Members(simdjson::dom::object object) : object_(object), next_(object.begin()) {}

  // Leaves `member` unchanged if the object lacks the key.
  template <typename T>
  void read(std::string_view key, T& member) {
    simdjson::dom::element value;
    if (find(key, value)) read_value(key, value, member);
  }

  template <typename T>
  T required(std::string_view key) {
    simdjson::dom::element value;
    if (!find(key, value)) fail(key, simdjson::NO_SUCH_FIELD);
    T member{};
    read_value(key, value, member);
    return member;
  }

 private:
  bool find(std::string_view key, simdjson::dom::element& value) {
    if (next_ != object_.end() && next_.key() == key) {
      value = next_.value();
      ++next_;
      return true;
    }
    return object_.at_key(key).get(value) == simdjson::SUCCESS;
  }

  template <typename T>
  static void read_value(std::string_view key, simdjson::dom::element value, T& member) {
    if constexpr (is_optional<T>) {
      if (value.is_null()) {
        member.reset();
      } else {
        read_value(key, value, member.emplace());
      }
    } else if constexpr (std::same_as<T, std::string>) {
      std::string_view text;
      check(key, value.get(text));
      member = text;
    } else {
      check(key, value.get(member));
      if constexpr (std::same_as<T, int64_t>) {
        // The limit keeps sums and differences of two numbers in range. No count or time is larger.
        constexpr int64_t kLargest = int64_t{1} << 60;
        if (member < -kLargest || member > kLargest) fail(key, simdjson::NUMBER_OUT_OF_RANGE);
      }
    }
  }

  simdjson::dom::object object_;
  simdjson::dom::object::iterator next_;
};

// True if a missing number would read as a measured 0; a line without the number is damaged.
// RunStarted is exempt because newer versions add members to it.
template <typename Alternative, typename T>
constexpr bool is_required =
    !std::same_as<Alternative, RunStarted> && (std::same_as<T, int64_t> || std::same_as<T, double>);

// Tries each alternative of the variant in turn.
template <size_t I = 0>
bool read_body(std::string_view kind, Members& members, Body& body) {
  if constexpr (I < std::variant_size_v<Body>) {
    using Alternative = std::variant_alternative_t<I, Body>;
    if (kind != Alternative::kKind) return read_body<I + 1>(kind, members, body);
    auto& read = body.emplace<I>();
    Alternative::visit_fields(read, [&](const char* name, auto& member, auto&&...) {
      using T = std::decay_t<decltype(member)>;
      if constexpr (is_required<Alternative, T>) {
        member = members.required<T>(name);
      } else {
        members.read(name, member);
      }
    });
    return true;
  }
  return false;
}

}  // namespace

std::optional<Event> event_from_json_line(std::string_view line) {
  thread_local simdjson::dom::parser parser;  // its memory is worth keeping from line to line
  simdjson::dom::object object;
  check("", parser.parse(line.data(), line.size()).get(object));
  Members members(object);
  std::optional<Event> event(std::in_place);
  event->version = static_cast<int>(members.required<int64_t>("version"));
  const auto kind = members.required<std::string_view>("kind");
  event->sequence = members.required<int64_t>("sequence");
  event->time_unix_ms = members.required<int64_t>("time_unix_ms");
  members.read("elapsed_ms", event->elapsed_ms);
  if (!read_body(kind, members, event->body)) event.reset();
  return event;
}

}  // namespace fsdp
