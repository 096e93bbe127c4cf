#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "trainer/backend/streams.h"

namespace fsdp {

// Does the work at once. Keeps a vector clock per stream: how much work of the other streams the
// stream has waited for. Collects every access that a GPU could do too early:
//   - a read or write that has not waited for the buffer's last write,
//   - a write that has not waited for a read,
//   - a use of a buffer that was given back,
//   - a buffer given back while its pool's stream has not waited for its users.
class RecordingStreams : public Streams {
 public:
  void run(StreamId stream, const Accesses& accesses, const std::function<void()>& work) override;
  EventPtr record(StreamId stream) override;
  void block(StreamId stream, const EventPtr& event) override;
  // The host sees that the event has passed, unless the device is behind.
  bool is_done(const EventPtr& event) override;
  void drain() noexcept override {}
  void allocated(StreamId pool, Buffer buffer) override;
  void freed(Buffer buffer) override;
  void renamed(Buffer from, Buffer to) override;

  // True if the device lags: is_done() is then false.
  bool is_device_behind = false;

  // One line per hazard; empty when the order is right.
  const std::vector<std::string>& hazards() const { return hazards_; }
  // The number of a kind's buffers that are allocated now, and the most at any time.
  int live(BufferKind kind) const { return count(live_, kind); }
  int live_max(BufferKind kind) const { return count(live_max_, kind); }
  // Every run() in order, such as "gather: whole 3": the stream and the first buffer written. The
  // first buffer read if none is written.
  const std::vector<std::string>& log() const { return log_; }

 protected:
  void note(const std::string& line) { log_.push_back(line); }

 private:
  static constexpr size_t kStreamCount = 7;
  using Clock = std::array<int, kStreamCount>;
  struct Use {
    StreamId stream;
    int time;
  };
  struct State {
    std::vector<Use> writes;  // the last one
    std::vector<Use> reads;   // since the last write
    StreamId pool = StreamId::kCompute;
    bool is_freed = false;
  };
  struct Event : StreamEvent {
    Clock clock;
  };

  static int count(const std::map<BufferKind, int>& counts, BufferKind kind) {
    const auto found = counts.find(kind);
    return found == counts.end() ? 0 : found->second;
  }
  bool has_seen(StreamId stream, const Use& use) const;
  // All work that the host did or waited for comes before its next operation on the stream.
  void follow_host(StreamId stream);
  void check(StreamId stream, const std::vector<Use>& uses, Buffer buffer, const char* what);

  std::array<Clock, kStreamCount> clocks_{};
  std::map<Buffer, State> buffers_;
  std::map<BufferKind, int> live_;
  std::map<BufferKind, int> live_max_;
  std::vector<std::string> hazards_;
  std::vector<std::string> log_;
};

}  // namespace fsdp
