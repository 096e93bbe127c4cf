// Splits steps into parts by marks at the boundaries of work. No moment is in two parts.
#include "trainer/train/step_accounts.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>

#include "base/system/unix_time.h"

namespace fsdp {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

int64_t nanoseconds(double milliseconds) { return std::llround(milliseconds * 1e6); }

}  // namespace

StepAccounts::StepAccounts(at::Device device, ProcessGroup& world, int64_t after, int64_t count,
                           int64_t traced, MemoryTrace* memory)
    : world_(world),
      after_(after),
      count_(std::max(count, traced)),
      traced_(traced),
      memory_(memory),
      clock_(device),
      computes_(current_stream(device)) {}

bool StepAccounts::computes_now() const { return current_stream(computes_.device()) == computes_; }

void StepAccounts::begin_step(int64_t step) {
  step_ = {};
  work_.clear();
  beside_.clear();
  traces_step_ = is_traced(step);
  if (traces_step_) {
    step_.begin_unix_ms_ = now_unix_ms();
    step_.begin_ = clock_.mark();
    step_.communication_begin_ = world_.now();
    if (memory_ != nullptr) {
      memory_->begin();
      step_.memory_changes_before_ = memory_->count();
    }
  }
  observed_.emplace(*this);
}

StepAccounts::Step StepAccounts::end_step() {
  observed_.reset();
  if (traces_step_ && memory_ != nullptr) step_.memory_changes_at_end_ = memory_->count();
  return std::exchange(step_, {});
}

void StepAccounts::begin(const Work& work) {
  if (is_on_another_thread()) return;
  const bool is_beside = !computes_now() || (!work_.empty() && !work_.back());
  const TimePart part = part_now(work.part);
  const auto piece = [&] {
    return Step::Piece{traces_step_ ? work.name : "", MemoryScope::current().unit};
  };
  if (is_beside) {
    work_.emplace_back();
    if (!traces_step_) return;
    beside_.push_back(step_.beside_.size());
    step_.beside_.push_back({piece(), clock_.mark(), nullptr});
    if (work.name.empty()) step_.beside_.back().piece.name = name_of(part);
    return;
  }
  work_.emplace_back(part);
  step_.boundaries_.push_back({clock_.mark(), part, is_collective(work.part), piece()});
}

void StepAccounts::end() {
  if (is_on_another_thread() || work_.empty()) return;
  const bool was_beside = !work_.back();
  work_.pop_back();
  if (was_beside) {
    if (beside_.empty()) return;
    step_.beside_[beside_.back()].end = clock_.mark();
    beside_.pop_back();
    return;
  }
  const TimePart outer = work_.empty() ? TimePart::kOther : *work_.back();
  step_.boundaries_.push_back({clock_.mark(), outer, false, std::nullopt});
}

void StepAccounts::add(int64_t step, const Step& work, const StepClock::Mark& begin,
                       StepClock::Mark& end, const CommunicationClock::Operations& communication) {
  Account account;
  account.event.step = step;
  account.event.step_time_ms = end.milliseconds_since(begin);
  const StepClock::Mark* before = &begin;
  TimePart part = TimePart::kOther;
  double waited_ms = 0;
  const auto add_until = [&](StepClock::Mark& mark) {
    const double time_ms = mark.milliseconds_since(*before);
    account.event.parts[part] += time_ms;
    if (is_collective(part)) {
      account.waits_ms.back().second += time_ms;
      waited_ms += time_ms;
    }
    before = &mark;
  };
  for (const Step::Boundary& boundary : work.boundaries_) {
    add_until(*boundary.mark);
    part = boundary.next;
    if (boundary.begins_wait) account.waits_ms.emplace_back(part, 0.0);
  }
  add_until(end);
  account.event.hidden_communication_ms = std::max(0.0, communication.milliseconds() - waited_ms);
  accounts_.push_back(std::move(account));
  if (!is_traced(step)) return;
  traces_.push_back(trace_of(step, work, begin, end, communication));
  if (memory_ != nullptr && !is_traced(step + 1)) memory_->stop();
}

StepTrace StepAccounts::trace_of(int64_t step, const Step& work, const StepClock::Mark& begin,
                                 StepClock::Mark& end,
                                 const CommunicationClock::Operations& communication) {
  StepTrace trace{.step = step,
                  .begin_unix_ms = work.begin_unix_ms_,
                  .memory_changes_before = work.memory_changes_before_,
                  .memory_changes_at_end = work.memory_changes_at_end_};
  const auto add = [&](SpanKind kind, std::string_view name, int unit, double begin_ms,
                       double end_ms, int64_t bytes = 0) {
    if (end_ms <= begin_ms) return;
    trace.spans.push_back({.kind = kind,
                           .name = std::string(name),
                           .unit = known_unit(unit),
                           .bytes = bytes,
                           .begin_ns = nanoseconds(begin_ms),
                           .time_ns = nanoseconds(end_ms) - nanoseconds(begin_ms)});
  };
  std::vector<std::pair<Step::Piece, double>> open;  // pieces and when they began
  double part_began_ms = 0;
  TimePart part = TimePart::kOther;
  const auto end_part = [&](double at_ms) {
    const int unit = open.empty() ? kNoMemoryUnit : open.back().first.unit;
    add(SpanKind::kPart, name_of(part), unit, part_began_ms, at_ms);
    part_began_ms = at_ms;
  };
  for (const Step::Boundary& boundary : work.boundaries_) {
    const double at_ms = boundary.mark->milliseconds_since(begin);
    end_part(at_ms);
    part = boundary.next;
    if (boundary.piece) {
      open.emplace_back(*boundary.piece, at_ms);
    } else {
      const auto& [piece, began_ms] = open.back();
      if (!piece.name.empty()) add(SpanKind::kWork, piece.name, piece.unit, began_ms, at_ms);
      open.pop_back();
    }
  }
  end_part(end.milliseconds_since(begin));
  for (const Step::Beside& beside : work.beside_) {
    if (!beside.end) continue;
    add(SpanKind::kBeside, beside.piece.name, beside.piece.unit,
        beside.begin->milliseconds_since(begin), beside.end->milliseconds_since(begin));
  }
  const double communication_begin_ms = work.begin_->milliseconds_since(begin);
  for (const auto& operation : communication.after(*work.communication_begin_)) {
    add(SpanKind::kCollective, operation.name, operation.unit,
        communication_begin_ms + operation.begin_ms, communication_begin_ms + operation.end_ms,
        operation.bytes);
  }
  return trace;
}

RankTrace StepAccounts::trace() const {
  RankTrace trace{.steps = traces_};
  if (memory_ != nullptr && has_trace()) {
    trace.memory = memory_->changes(traces_.back().memory_changes_at_end);
  }
  return trace;
}

std::vector<double> StepAccounts::least_waits() const {
  std::vector<double> own;
  for (const Account& account : accounts_) {
    for (const auto& [part, time_ms] : account.waits_ms) own.push_back(time_ms);
  }
  const auto count = std::ssize(own);
  if (world_.size() == 1 || count == 0) return own;
  const at::Tensor mine = at::tensor(own, at::kDouble).to(computes_.device());
  const at::Tensor all = at::empty({world_.size() * count}, mine.options());
  world_.all_gather(all, mine).wait();
  const at::Tensor least = all.view({world_.size(), count}).amin(0).to(at::kCPU);
  return {least.const_data_ptr<double>(), least.const_data_ptr<double>() + count};
}

std::vector<StepAccount> StepAccounts::take() {
  const std::vector<double> least_ms = least_waits();
  auto least = least_ms.begin();
  std::vector<StepAccount> taken;
  for (Account& account : std::exchange(accounts_, {})) {
    TimeByPart& parts = account.event.parts;
    for (const auto& [part, time_ms] : account.waits_ms) {
      const double for_others_ms = time_ms - *least++;
      parts[part] -= for_others_ms;
      parts[TimePart::kSlowerRanks] += for_others_ms;
    }
    taken.push_back(account.event);
  }
  return taken;
}

}  // namespace fsdp
