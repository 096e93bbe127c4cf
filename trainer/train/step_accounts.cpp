// Splits steps into parts by marks at the boundaries of work. No moment is in two parts.
#include "trainer/train/step_accounts.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace fsdp {
namespace {

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

StepAccounts::StepAccounts(at::Device device, ProcessGroup& world, int64_t after, int64_t count)
    : world_(world),
      after_(after),
      count_(count),
      clock_(device),
      computes_(current_stream(device)) {}

bool StepAccounts::computes_now() const { return current_stream(computes_.device()) == computes_; }

void StepAccounts::begin_step() {
  step_ = {};
  work_.clear();
  observed_.emplace(*this);
}

StepAccounts::Step StepAccounts::end_step() {
  observed_.reset();
  return std::exchange(step_, {});
}

void StepAccounts::begin(const Work& work) {
  if (is_on_another_thread()) return;
  const bool is_beside = !computes_now() || (!work_.empty() && !work_.back());
  if (is_beside) {
    work_.emplace_back();
    return;
  }
  work_.emplace_back(part_now(work.part));
  step_.boundaries_.push_back({clock_.mark(), *work_.back(), is_collective(work.part)});
}

void StepAccounts::end() {
  if (is_on_another_thread() || work_.empty()) return;
  const bool was_beside = !work_.back();
  work_.pop_back();
  if (was_beside) return;
  const TimePart outer = work_.empty() ? TimePart::kOther : *work_.back();
  step_.boundaries_.push_back({clock_.mark(), outer, false});
}

void StepAccounts::add(int64_t step, const Step& work, const StepClock::Mark& begin,
                       StepClock::Mark& end, double communication_time_ms) {
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
  account.event.hidden_communication_ms = std::max(0.0, communication_time_ms - waited_ms);
  accounts_.push_back(std::move(account));
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
