// Times repeated work on all ranks. A piece takes as long as on its slowest rank.
#include "trainer/calibrate/timed_work.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <span>

namespace fsdp {
namespace {

constexpr int kWarmUps = 2;
constexpr double kFewest = 5;
constexpr double kMost = 50;
constexpr double kLongEnough_ms = 250;

double middle_mean(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t quarter = values.size() / 4;
  const auto middle = std::span(values).subspan(quarter, values.size() - 2 * quarter);
  return std::reduce(middle.begin(), middle.end()) / static_cast<double>(middle.size());
}

}  // namespace

TimedWork::TimedWork(at::Device device, ProcessGroup& world)
    : device_(device), world_(world), clock_(device) {}

// Work without a name is within other work, or a wait.
void TimedWork::begin(const Work& work) {
  depth_ += 1;
  if (!work.name.empty()) pieces_.push_back({work, depth_, clock_.mark(), nullptr});
}

void TimedWork::end() {
  const bool has_name = !pieces_.empty() && pieces_.back().depth == depth_ && !pieces_.back().end;
  if (has_name) pieces_.back().end = clock_.mark();
  depth_ -= 1;
}

double TimedWork::milliseconds_of(const std::function<void()>& step) {
  world_.barrier();
  pieces_.clear();
  const auto begin = clock_.mark();
  step();
  return clock_.mark()->milliseconds_since(*begin);
}

int TimedWork::repetitions(double time_ms) {
  const at::Tensor sum = at::full({1}, time_ms, at::TensorOptions(at::kFloat).device(device_));
  world_.all_reduce(sum).wait();
  const double mean_ms = sum.item<double>() / world_.size();
  return static_cast<int>(std::clamp(kLongEnough_ms / mean_ms, kFewest, kMost));
}

void TimedWork::repeat(const std::function<void()>& step, const char* rest) {
  const ObservedWork observed(*this);
  double time_ms = 0;
  for (int i = 0; i < kWarmUps; ++i) time_ms = milliseconds_of(step);
  for (int i = repetitions(time_ms); i > 0; --i) {
    double rest_ms = milliseconds_of(step);
    std::vector<double> times_ms;
    for (const Piece& piece : pieces_) {
      times_ms.push_back(piece.end->milliseconds_since(*piece.begin));
      rest_ms -= times_ms.back();
    }
    times_ms = slowest(times_ms);
    for (size_t p = 0; p < pieces_.size(); ++p) add(pieces_[p].work, times_ms[p]);
    if (rest != nullptr) add({.name = rest, .width = 1}, std::max(0.0, rest_ms));
  }
}

std::vector<double> TimedWork::slowest(const std::vector<double>& times_ms) {
  const auto count = std::ssize(times_ms);
  const at::Tensor own = at::tensor(times_ms, at::kFloat).to(device_);
  const at::Tensor all = at::empty({world_.size() * count}, own.options());
  world_.all_gather(all, own).wait();
  const at::Tensor most = all.view({world_.size(), count}).amax(0).to(at::kCPU, at::kDouble);
  return {most.const_data_ptr<double>(), most.const_data_ptr<double>() + count};
}

void TimedWork::add(const Work& work, double time_ms) {
  times_ms_[{work.name, work.rows, work.width}].push_back(time_ms);
}

std::vector<WorkTime> TimedWork::times() const {
  std::vector<WorkTime> times;
  for (const auto& [key, times_ms] : times_ms_) {
    const auto& [name, rows, width] = key;
    times.push_back({.work = name, .rows = rows, .width = width, .time_ms = middle_mean(times_ms)});
  }
  return times;
}

}  // namespace fsdp
