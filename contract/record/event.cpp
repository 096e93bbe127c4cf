// Writes and reads events, one JSON line each. Reading never accepts a damaged line.
#include "contract/record/event.h"

#include <fcntl.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "base/text/json.h"

namespace fsdp {

// --- writing ---

namespace {

using Body = decltype(Event::body);

bool is_last(const Body& body) {
  return std::holds_alternative<RunFinished>(body) || std::holds_alternative<RunFailed>(body) ||
         std::holds_alternative<RunInterrupted>(body);
}

constexpr size_t kMostPendingBytes = size_t{64} << 20;
constexpr std::chrono::minutes kPatience{10};
constexpr std::chrono::milliseconds kBetweenTries{500};

bool may_pass(int error_number) {
  constexpr std::array kPassing = {ENOSPC, EDQUOT, EROFS, EIO, ESTALE, EFBIG};
  return std::ranges::find(kPassing, error_number) != kPassing.end();
}

// Returns when this process started, by the clock of since_boot_ms(). /proc/self/stat gives it in
// ticks since the boot. It is the 20th field after the program's name, which ends at the last ')'.
int64_t process_started_ms() {
  constexpr int kFieldsBefore = 19;
  std::string text;
  std::getline(std::ifstream("/proc/self/stat"), text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < kFieldsBefore; ++i) fields >> field;
  int64_t ticks = 0;
  if (fields >> ticks) return ticks * 1000 / sysconf(_SC_CLK_TCK);
  return since_boot_ms();
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
        if (event.elapsed_ms) line += ",\"elapsed_ms\":" + std::to_string(*event.elapsed_ms);
        Body::visit_fields(body, [&](const char* name, const auto& member, auto&&...) {
          line += ",\"" + std::string(name) + "\":";
          append_json(line, member);
        });
      },
      event.body);
  return line + '}';
}

EventWriter::EventWriter(const std::string& path)
    : descriptor_(open(path.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666)),
      path_(path),
      process_started_unix_ms_(clock_.now_unix_ms() -
                               std::max<int64_t>(0, since_boot_ms() - process_started_ms())) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), path);
}

EventWriter::~EventWriter() { close(descriptor_); }

void EventWriter::write(Body body) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = is_last(body);
  const bool may_wait = std::holds_alternative<RunFinished>(body);
  const int64_t now = clock_.now_unix_ms();
  pending_ += to_json_line(Event{.sequence = sequence_++,
                                 .time_unix_ms = now,
                                 .elapsed_ms = now - process_started_unix_ms_,
                                 .body = std::move(body)}) +
              '\n';
  const auto patience_ends = std::chrono::steady_clock::now() + kPatience;
  while (const int problem = write_pending()) {
    if (!may_pass(problem)) fail(problem);
    if (!ended_ && pending_.size() < kMostPendingBytes) return;
    // The process's limit on file sizes (EFBIG) is seldom raised while it runs.
    const bool waits = may_wait && problem != EFBIG;
    if (!waits || std::chrono::steady_clock::now() >= patience_ends) fail(problem);
    std::this_thread::sleep_for(kBetweenTries);
  }
}

int EventWriter::write_pending() {
  while (!pending_.empty()) {
    const ssize_t written = ::write(descriptor_, pending_.data(), pending_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    pending_.erase(0, static_cast<size_t>(written));
  }
  return 0;
}

void EventWriter::fail(int error_number) const {
  const std::string advice = error_number == EFBIG
                                 ? "raise the limit on the size of files (ulimit -f)"
                                 : "free space on its file system, or make it writable";
  throw std::system_error(error_number, std::generic_category(),
                          path_ + ": cannot be written; " + advice);
}

// --- reading ---

namespace {

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

// True if a line without this member is damaged: a missing number would read as a measured 0.
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
  thread_local simdjson::dom::parser parser;  // keeps its memory from line to line
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
