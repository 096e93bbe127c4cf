#include "trainer/contract/event.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>

#include "trainer/contract/json.h"
#include "trainer/contract/unix_time.h"

namespace fsdp {
namespace {

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

EventWriter::EventWriter(const std::string& path)
    : descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)),
      path_(path) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), path);
}

EventWriter::~EventWriter() { close(descriptor_); }

void EventWriter::write(decltype(Event::body) body) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = is_last(body);
  const std::string line =
      to_json_line(
          Event{.sequence = sequence_++, .time_unix_ms = now_unix_ms(), .body = std::move(body)}) +
      '\n';
  const ssize_t written = ::write(descriptor_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    throw std::system_error(written < 0 ? errno : ENOSPC, std::generic_category(), path_);
  }
}

}  // namespace fsdp
