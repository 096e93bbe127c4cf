#include "trainer/comm/exchange_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "trainer/comm/backends.h"

namespace fsdp {
namespace {

constexpr int64_t kScratchBytes = 4 << 20;
constexpr int64_t kSmallestChunkBytes = 64 << 10;
constexpr int64_t kLargestChunkBytes = 1 << 20;
constexpr int kTag = 0;

int64_t chunk_bytes_for(int ranks) {
  const int64_t share = kScratchBytes / (2 * (ranks - 1));
  return std::clamp(share, kSmallestChunkBytes, kLargestChunkBytes) / 64 * 64;
}

// out[i] = sources[0][i] + sources[1][i] + ...; `out` may be one of the sources.
template <typename T, typename Sum>
void sum_in_order(std::span<const std::byte* const> sources, std::byte* out, int64_t bytes) {
  constexpr int64_t kBlock = 2048;
  std::array<Sum, kBlock> sum;
  const int64_t count = bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const auto* first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<Sum>(first[i]);
    for (const std::byte* source : sources.subspan(1)) {
      const auto* next = reinterpret_cast<const T*>(source) + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<Sum>(next[i]);
    }
    auto* result = reinterpret_cast<T*>(out) + begin;
    for (int64_t i = 0; i < n; ++i) result[i] = static_cast<T>(sum[i]);
  }
}

void sum_in_order(at::ScalarType dtype, std::span<const std::byte* const> sources, std::byte* out,
                  int64_t bytes) {
  switch (dtype) {
    case at::kFloat:
      return sum_in_order<float, float>(sources, out, bytes);
    case at::kDouble:
      return sum_in_order<double, double>(sources, out, bytes);
    case at::kBFloat16:
      return sum_in_order<at::BFloat16, float>(sources, out, bytes);
    case at::kLong:
      return sum_in_order<int64_t, int64_t>(sources, out, bytes);
    default:
      TORCH_CHECK(false, "no sum over ranks for ", dtype);
  }
}

void wait_all(std::vector<c10::intrusive_ptr<c10d::Work>>& works) {
  for (const auto& work : works) TORCH_CHECK(work->wait(), "the operation was aborted");
  works.clear();
}

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
      backend_(std::move(backend)),
      chunk_bytes_(chunk_bytes_for(size())),
      scratch_(2 * (size() - 1) * chunk_bytes_),
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
  return submit("all_gather", unit, [this, output, shard] {
    const int64_t bytes = static_cast<int64_t>(shard.nbytes());
    Parts parts{bytes_of(output), {}};
    for (int r = 0; r <= size(); ++r) parts.begin.push_back(r * bytes);
    if (parts.at(rank()) != bytes_of(shard)) {
      std::memcpy(parts.at(rank()), bytes_of(shard), bytes);
    }
    exchange_parts(parts);
  });
}

Pending ExchangeGroup::reduce_scatter(at::Tensor shard, at::Tensor input, int unit) {
  check_pair(shard, input, size());
  return submit("reduce_scatter", unit, [this, shard, input] {
    Parts parts{bytes_of(input), {}};
    for (int r = 0; r <= size(); ++r) {
      parts.begin.push_back(r * static_cast<int64_t>(shard.nbytes()));
    }
    sum_parts(parts, bytes_of(shard), shard.scalar_type());
  });
}

Pending ExchangeGroup::all_reduce(at::Tensor tensor, int unit) {
  TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "gloo needs a contiguous CPU tensor");
  return submit("all_reduce", unit, [this, tensor] {
    if (tensor.scalar_type() != at::kBFloat16) {
      // A view that owns nothing: gloo's thread drops its tensors some time after the wait.
      std::vector<at::Tensor> tensors{
          at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.options())};
      TORCH_CHECK(backend_->allreduce(tensors)->wait(), "the operation was aborted");
      return;
    }
    Parts parts{bytes_of(tensor), {}};
    for (int r = 0; r <= size(); ++r) {
      parts.begin.push_back(tensor.numel() * r / size() *
                            static_cast<int64_t>(tensor.element_size()));
    }
    sum_parts(parts, parts.at(rank()), tensor.scalar_type());
    exchange_parts(parts);
  });
}

void ExchangeGroup::barrier() {
  int64_t arrived = 1;
  submit("barrier", kNoUnit, [this, &arrived] {
    std::vector<int64_t> all(size(), arrived);
    Parts parts{reinterpret_cast<std::byte*>(all.data()), {}};
    for (int r = 0; r <= size(); ++r) {
      parts.begin.push_back(r * static_cast<int64_t>(sizeof(int64_t)));
    }
    exchange_parts(parts);
  }).wait();
}

std::string ExchangeGroup::agree(const std::string& key, const std::string& value) {
  return membership_.agree(key, value);
}

void ExchangeGroup::leave(const std::string& key, const std::string& value) {
  membership_.leave(key, value);
}

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

Pending ExchangeGroup::submit(const char* name, int unit, std::function<void()> run) {
  Operation operation{name, unit, std::move(run), {}};
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
    if (stopping_) failure_ = std::string(operation.name) + " was abandoned";
    lock.unlock();
    try {
      if (failure_.empty()) {
        const auto begin = std::chrono::steady_clock::now();
        const Watchdog::Watched watched = membership_.watch(operation.name, operation.unit);
        operation.run();
        clock().add(begin, std::chrono::steady_clock::now());
      }
    } catch (const std::exception& error) {
      failure_ = membership_.describe_failure(operation.name, operation.unit, error);
    }
    operation.run = nullptr;  // lets go of the tensors before the caller goes on
    if (failure_.empty()) {
      operation.done.set_value();
    } else {
      operation.done.set_exception(std::make_exception_ptr(CommunicationError(failure_)));
    }
  }
}

void ExchangeGroup::exchange_parts(const Parts& output) {
  Works works;
  for (int step = 1; step < size(); ++step) {
    receive(output.at(before(step)), output.size(before(step)), before(step), works);
  }
  for (int step = 1; step < size(); ++step) {
    send(output.at(rank()), output.size(rank()), after(step), works);
  }
  wait_all(works);
}

void ExchangeGroup::sum_parts(const Parts& input, std::byte* out, at::ScalarType dtype) {
  const int64_t own_bytes = input.size(rank());
  const int64_t chunks = (own_bytes + chunk_bytes_ - 1) / chunk_bytes_;
  const auto slot = [&](int64_t chunk, int from) {
    const int64_t other = from < rank() ? from : from - 1;
    return scratch_.data() + (chunk % 2 * (size() - 1) + other) * chunk_bytes_;
  };
  const auto length = [&](int64_t chunk) {
    return std::min(chunk_bytes_, own_bytes - chunk * chunk_bytes_);
  };
  std::array<Works, 2> received;
  const auto receive_chunk = [&](int64_t chunk) {
    if (chunk >= chunks) return;
    for (int step = 1; step < size(); ++step) {
      receive(slot(chunk, before(step)), length(chunk), before(step), received[chunk % 2]);
    }
  };

  receive_chunk(0);
  Works sent;
  const int64_t largest = *std::max_element(input.begin.begin(), input.begin.end());
  for (int64_t begin = 0; begin < largest; begin += chunk_bytes_) {
    for (int step = 1; step < size(); ++step) {
      const int to = after(step);
      send(input.at(to) + begin, std::min(chunk_bytes_, input.size(to) - begin), to, sent);
    }
  }
  std::vector<const std::byte*> sources(size());
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    receive_chunk(chunk + 1);
    wait_all(received[chunk % 2]);
    for (int r = 0; r < size(); ++r) {
      sources[r] = r == rank() ? input.at(r) + chunk * chunk_bytes_ : slot(chunk, r);
    }
    sum_in_order(dtype, sources, out + chunk * chunk_bytes_, length(chunk));
  }
  wait_all(sent);
}

void ExchangeGroup::send(std::byte* data, int64_t bytes, int to, Works& works) {
  if (bytes <= 0) return;
  std::vector<at::Tensor> message{at::from_blob(data, {bytes}, at::kByte)};
  works.push_back(backend_->send(message, to, kTag));
}

void ExchangeGroup::receive(std::byte* data, int64_t bytes, int from, Works& works) {
  if (bytes <= 0) return;
  std::vector<at::Tensor> message{at::from_blob(data, {bytes}, at::kByte)};
  works.push_back(backend_->recv(message, from, kTag));
}

}  // namespace fsdp
