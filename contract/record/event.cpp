#include "contract/record/event.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/text/json.h"

namespace fsdp {
namespace {

bool is_last(const decltype(Event::body)& body) {
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

// Returns the start time by the clock of since_boot_ms(). /proc/self/stat gives it in ticks since
// the boot. It is the 20th field after the program's name, which ends at the last ')'.
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
                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644)),
      path_(path),
      process_started_unix_ms_(clock_.now_unix_ms() -
                               std::max<int64_t>(0, since_boot_ms() - process_started_ms())) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), path);
}

EventWriter::~EventWriter() { close(descriptor_); }

void EventWriter::write(decltype(Event::body) body) {
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
    const bool waits = may_wait && problem != EFBIG;  // limits of processes are seldom raised
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

}  // namespace fsdp
