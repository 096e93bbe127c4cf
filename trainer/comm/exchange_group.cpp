// Runs the CPU's collectives one after another on a thread, so that computation goes on.
#include "trainer/comm/exchange_group.h"

#include <cstring>

#include "trainer/comm/backends.h"

namespace fsdp {
namespace {

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

void check_pair(const at::Tensor& shard, const at::Tensor& whole, int ranks) {
  TORCH_CHECK(shard.is_cpu() && whole.is_cpu() && shard.is_contiguous() && whole.is_contiguous(),
              "gloo needs contiguous tensors on the CPU");
  TORCH_CHECK(whole.scalar_type() == shard.scalar_type() && whole.numel() == shard.numel() * ranks,
              "a buffer of ", whole.numel(), " ", whole.scalar_type(), " is not ", ranks,
              " shards of ", shard.numel(), " ", shard.scalar_type());
}

}  // namespace

ExchangeGroup::ExchangeGroup(Membership membership, c10::intrusive_ptr<c10d::Backend> backend)
    : ProcessGroup(backend->getRank(), backend->getSize(), membership.clock),
      membership_(std::move(membership)),
      parts_(membership_.single_host
                 ? make_host_exchange(std::move(backend), membership_.transport_timeout)
                 : make_message_exchange(std::move(backend), membership_.transport_timeout)),
      thread_([this] { work(); }) {}

ExchangeGroup::~ExchangeGroup() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Pending ExchangeGroup::all_gather(at::Tensor output, at::Tensor shard, int unit) {
  check_pair(shard, output, size());
  return submit({"all_gather", unit, static_cast<int64_t>(output.nbytes())}, [this, output, shard] {
    const int64_t bytes = static_cast<int64_t>(shard.nbytes());
    Parts parts{bytes_of(output), {}};
    for (int r = 0; r <= size(); ++r) parts.begin.push_back(r * bytes);
    // A caller may gather in place.
    if (parts.at(rank()) != bytes_of(shard)) {
      std::memcpy(parts.at(rank()), bytes_of(shard), bytes);
    }
    parts_->exchange(parts);
  });
}

Pending ExchangeGroup::reduce_scatter(at::Tensor shard, at::Tensor input, int unit) {
  check_pair(shard, input, size());
  return submit({"reduce_scatter", unit, static_cast<int64_t>(input.nbytes())},
                [this, shard, input] {
                  Parts parts{bytes_of(input), {}};
                  for (int r = 0; r <= size(); ++r) {
                    parts.begin.push_back(r * static_cast<int64_t>(shard.nbytes()));
                  }
                  parts_->sum(parts, bytes_of(shard), shard.scalar_type());
                });
}

Pending ExchangeGroup::all_reduce(at::Tensor tensor, int unit) {
  TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "gloo needs a contiguous CPU tensor");
  return submit({"all_reduce", unit, static_cast<int64_t>(tensor.nbytes())}, [this, tensor] {
    Parts parts{bytes_of(tensor), {}};
    for (int r = 0; r <= size(); ++r) {
      parts.begin.push_back(tensor.numel() * r / size() *
                            static_cast<int64_t>(tensor.element_size()));
    }
    // Each rank sums one part, and all ranks exchange the sums.
    parts_->sum(parts, parts.at(rank()), tensor.scalar_type());
    parts_->exchange(parts);
  });
}

void ExchangeGroup::barrier() {
  int64_t arrived = 1;
  submit({"barrier", kNoUnit, 0}, [this, &arrived] {
    std::vector<int64_t> all(size(), arrived);
    Parts parts{reinterpret_cast<std::byte*>(all.data()), {}};
    for (int r = 0; r <= size(); ++r) {
      parts.begin.push_back(r * static_cast<int64_t>(sizeof(int64_t)));
    }
    parts_->exchange(parts);
  }).wait();
}

std::string ExchangeGroup::agree(const std::string& key, const std::string& value) {
  return membership_.agree(key, value);
}

void ExchangeGroup::leave(const std::string& key, const std::string& value) {
  membership_.leave(key, value);
}

bool ExchangeGroup::is_left(const std::string& key) { return membership_.is_left(key); }

std::string ExchangeGroup::take(const std::string& key) { return membership_.take(key); }

std::unique_ptr<ProcessGroup> ExchangeGroup::subgroup(const std::string& name,
                                                      const std::vector<int>& ranks) {
  Membership part = membership_.subgroup(name, ranks);
  if (part.size() == 1) return make_single_rank_group();
  const std::string operation = "connect";
  try {
    const Watchdog::Watched watched = part.watch(operation, kNoUnit);
    auto backend = make_gloo_backend(part, part.transport_timeout);
    return std::make_unique<ExchangeGroup>(std::move(part), std::move(backend));
  } catch (const std::exception& error) {
    throw CommunicationError(part.describe_failure(operation, kNoUnit, error));
  }
}

Pending ExchangeGroup::submit(const CommunicationClock::Label& label, std::function<void()> run) {
  Operation operation{label, std::move(run), {}};
  const auto done = std::make_shared<std::future<void>>(operation.done.get_future());
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(operation));
  }
  wake_.notify_one();
  return Pending([done] { done->get(); });
}

void ExchangeGroup::work() {
  while (true) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    if (stopping_) failure_ = std::string(operation.label.name) + " was abandoned";
    lock.unlock();
    try {
      // After a failure ranks may be out of step, so nothing more is exchanged.
      if (failure_.empty()) {
        const auto begin = std::chrono::steady_clock::now();
        const Watchdog::Watched watched =
            membership_.watch(operation.label.name, operation.label.unit);
        operation.run();
        clock().add(operation.label, begin, std::chrono::steady_clock::now());
      }
    } catch (const std::exception& error) {
      failure_ = membership_.describe_failure(operation.label.name, operation.label.unit, error);
    }
    operation.run = nullptr;  // releases the tensors before wait() returns to the caller
    if (failure_.empty()) {
      operation.done.set_value();
    } else {
      operation.done.set_exception(std::make_exception_ptr(CommunicationError(failure_)));
    }
  }
}

}  // namespace fsdp
