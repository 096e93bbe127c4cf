#include "trainer/contract/event.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "trainer/contract/json.h"

namespace fsdp {
namespace {

template <typename T>
void read_member(const nlohmann::json& value, T& member) {
  if constexpr (is_optional<T>) {
    if (value.is_null()) {
      member.reset();
    } else {
      read_member(value, member.emplace());
    }
  } else {
    value.get_to(member);
  }
}

template <typename Body>
Body read_body(const nlohmann::json& object) {
  Body body;
  Body::visit_fields(body, [&](const char* name, auto& member, auto&&...) {
    if (const auto found = object.find(name); found != object.end()) read_member(*found, member);
  });
  return body;
}

// Tries each alternative of the variant in turn.
template <size_t I = 0>
std::optional<decltype(Event::body)> read_any_body(std::string_view kind,
                                                   const nlohmann::json& object) {
  using Variant = decltype(Event::body);
  if constexpr (I < std::variant_size_v<Variant>) {
    using Body = std::variant_alternative_t<I, Variant>;
    if (kind == Body::kKind) return Variant(read_body<Body>(object));
    return read_any_body<I + 1>(kind, object);
  }
  return std::nullopt;
}

bool is_last(const decltype(Event::body)& body) {
  return std::holds_alternative<RunFinished>(body) || std::holds_alternative<RunFailed>(body) ||
         std::holds_alternative<RunInterrupted>(body);
}

}  // namespace

std::string to_json_line(const Event& event) {
  std::string line;
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        line = "{\"version\":" + std::to_string(event.version) + ",\"kind\":\"" +
               std::string(Body::kKind) + "\",\"sequence\":" + std::to_string(event.sequence) +
               ",\"time_unix_ms\":" + std::to_string(event.time_unix_ms);
        Body::visit_fields(body, [&](const char* name, const auto& member, auto&&...) {
          line += ",\"" + std::string(name) + "\":";
          append_json(line, member);
        });
      },
      event.body);
  return line + '}';
}

std::optional<Event> event_from_json_line(std::string_view line) {
  try {
    const nlohmann::json object = nlohmann::json::parse(line);
    auto body = read_any_body(object.at("kind").get_ref<const std::string&>(), object);
    if (!body) return std::nullopt;
    return Event{.version = object.at("version").get<int>(),
                 .sequence = object.at("sequence").get<int64_t>(),
                 .time_unix_ms = object.at("time_unix_ms").get<int64_t>(),
                 .body = std::move(*body)};
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("not an event: ") + error.what());
  }
}

EventWriter::EventWriter(const std::string& path)
    : descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)),
      path_(path) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), path);
}

EventWriter::~EventWriter() { close(descriptor_); }

void EventWriter::write(decltype(Event::body) body) {
  using std::chrono::system_clock;
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = is_last(body);
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch());
  const std::string line =
      to_json_line(
          Event{.sequence = sequence_++, .time_unix_ms = now.count(), .body = std::move(body)}) +
      '\n';
  const ssize_t written = ::write(descriptor_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    throw std::system_error(written < 0 ? errno : ENOSPC, std::generic_category(), path_);
  }
}

}  // namespace fsdp
