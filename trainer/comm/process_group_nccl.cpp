#include <c10/cuda/CUDAFunctions.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/comm/backends.h"

namespace fsdp {
namespace {

// With asyncOp false NCCL runs an operation on the caller's current stream and gives no Work back,
// so that streams and events order it like any kernel.
class NcclGroup : public ProcessGroup {
 public:
  NcclGroup(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> backend,
            at::Device device)
      : ProcessGroup(backend->getRank(), backend->getSize()),
        store_(std::move(store)),
        backend_(std::move(backend)),
        device_(device) {}

  Pending all_gather(at::Tensor output, at::Tensor shard) override {
    c10d::AllgatherOptions options;
    options.asyncOp = false;
    return issue("all_gather", [&] { return backend_->_allgather_base(output, shard, options); });
  }

  Pending reduce_scatter(at::Tensor shard, at::Tensor input) override {
    c10d::ReduceScatterOptions options;
    options.asyncOp = false;
    return issue("reduce_scatter",
                 [&] { return backend_->_reduce_scatter_base(shard, input, options); });
  }

  Pending all_reduce(at::Tensor tensor) override {
    c10d::AllreduceOptions options;
    options.asyncOp = false;
    std::vector<at::Tensor> tensors{tensor};
    return issue("all_reduce", [&] { return backend_->allreduce(tensors, options); });
  }

  void barrier() override {
    c10d::BarrierOptions options;
    options.device = device_;
    issue("barrier", [&] {
      backend_->barrier(options)->wait();
      return c10::intrusive_ptr<c10d::Work>();
    });
  }

  std::string agree(const std::string& key, const std::string& value) override {
    std::string agreed;
    issue("agree on " + key, [&] {
      agreed = agree_through(*store_, rank(), "agree/" + std::to_string(agreements_++) + "/" + key,
                             value);
      return c10::intrusive_ptr<c10d::Work>();
    });
    return agreed;
  }

 private:
  template <typename Run>
  Pending issue(const std::string& operation, Run run) {
    try {
      const c10::intrusive_ptr<c10d::Work> work = run();
      TORCH_CHECK(!work, "NCCL gave a Work for an operation on the current stream");
      return {};
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      throw CommunicationError(describe_failure(operation, *this, error));
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  at::Device device_;
  int64_t agreements_ = 0;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                                              const WorldEnvironment& world, at::Device device,
                                              std::chrono::milliseconds timeout) {
  c10::cuda::set_device(device.index());
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, world.rank, world.world_size, options);
  backend->setBoundDeviceId(device);
  return std::make_unique<NcclGroup>(store, std::move(backend), device);
}

}  // namespace fsdp
