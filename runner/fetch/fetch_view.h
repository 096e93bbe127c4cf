#pragma once

#include <chrono>
#include <string>

#include "runner/fetch/fetch.h"

namespace fsdp {

// Shows a fetch on stderr. A terminal shows a bar for all files below the messages. Other outputs
// get one line per file and one every 15 s.
class FetchView {
 public:
  explicit FetchView(FetchProgress& progress);
  ~FetchView();
  FetchView(const FetchView&) = delete;
  FetchView& operator=(const FetchView&) = delete;

  // Shows the news. Call it several times a second.
  void refresh();

 private:
  using Clock = std::chrono::steady_clock;

  std::string figures(Clock::time_point now);
  std::string bar_line(Clock::time_point now);

  FetchProgress& progress_;
  const bool is_terminal_;
  bool is_drawn_ = false;
  Clock::time_point said_at_ = Clock::now();
  Clock::time_point measured_at_ = said_at_;
  int64_t measured_bytes_ = 0;
  double bytes_per_s_ = 0;  // smoothed
};

}  // namespace fsdp
