// Issues the reads and writes of libtorch's operators to the current stream.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/order.h"
#include "tests/fakes/cuda/state.h"

namespace fsdp::fake_cuda {
namespace {

struct Accesses {
  std::vector<Access> on_gpu;
  std::vector<Access> on_host;  // of registered memory
  c10::DeviceIndex gpu = 0;
};

void add(Accesses& accesses, const at::Tensor& tensor, bool is_write) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.is_meta() || tensor.numel() == 0) return;
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const Access access{tensor.const_data_ptr(),
                      static_cast<size_t>(last + 1) * tensor.element_size(), is_write};
  if (tensor.is_cuda()) {
    accesses.gpu = tensor.device().index();
    accesses.on_gpu.push_back(access);
  } else if (is_pinned_memory(access.begin)) {
    accesses.on_host.push_back(access);
  }
}

void add(Accesses& accesses, const c10::IValue& value, bool is_write) {
  if (value.isTensor()) {
    add(accesses, value.toTensor(), is_write);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) add(accesses, tensor, is_write);
  }
}

// The arguments and results that an operator writes. A call without a schema is one of our own
// kernels (show_launch); it writes its results.
struct Effects {
  bool touches_memory = true;
  std::vector<bool> writes_argument;
  std::vector<bool> writes_result;
};

Effects effects_of(const c10::OperatorName& name) {
  Effects effects;
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) return effects;
  const c10::FunctionSchema& schema = handle->schema();
  for (const c10::Argument& argument : schema.arguments()) {
    effects.writes_argument.push_back(argument.alias_info() && argument.alias_info()->isWrite());
  }
  for (const c10::Argument& result : schema.returns()) {
    const bool is_view = result.alias_info() && !result.alias_info()->isWrite();
    if (is_view) effects.touches_memory = false;
    effects.writes_result.push_back(!result.alias_info());
  }
  const std::string_view text = name.name;
  if (text.find("empty") != text.npos || text == "aten::resize_" || text == "aten::set_") {
    effects.touches_memory = false;
  }
  return effects;
}

const Effects& effects_of(const at::RecordFunction& function) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, Effects> known;
  static const Effects of_our_own;
  const auto name = function.operator_name();
  if (!name) return of_our_own;
  const std::lock_guard lock(mutex);
  const auto found = known.find(*name);
  return found != known.end() ? found->second
                              : known.emplace(*name, effects_of(*name)).first->second;
}

// A running operator. If it calls operators that write, these have issued the writes of its
// results. Its end issues nothing then, as others may already have waited for the results.
struct Call : at::ObserverContext {
  Call* outer = nullptr;
  bool has_writing_inner = false;
};

thread_local Call* innermost = nullptr;

// Issues the operator on the current stream of its tensors' GPU, whatever GPU is current. A copy
// between GPU and host reports the host's memory itself (cudaMemcpyAsync).
void issue(const at::RecordFunction& function, const Accesses& accesses, Call* outer) {
  if (accesses.on_gpu.empty()) {
    if (!accesses.on_host.empty()) run_on_host(function.name(), accesses.on_host);
    return;
  }
  const bool writes = std::ranges::any_of(accesses.on_gpu, &Access::is_write);
  if (outer != nullptr && writes) outer->has_writing_inner = true;
  const c10::DeviceGuard guard(c10::Device(at::kCUDA, accesses.gpu));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(accesses.gpu).stream();
  fake_cuda::issue(stream, function.name(), accesses.on_gpu);
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  auto call = std::make_unique<Call>();
  call->outer = std::exchange(innermost, call.get());
  operations().push_back(function.name());
  const Effects& effects = effects_of(function);
  if (!effects.touches_memory) return call;
  Accesses accesses;
  for (size_t i = 0; i < function.inputs().size(); ++i) {
    const bool is_written = i < effects.writes_argument.size() && effects.writes_argument[i];
    add(accesses, function.inputs()[i], is_written);
  }
  issue(function, accesses, call->outer);
  return call;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const Call& call = *static_cast<Call*>(context);
  innermost = call.outer;
  operations().pop_back();
  const Effects& effects = effects_of(function);
  if (!effects.touches_memory || call.has_writing_inner) return;
  Accesses writes;
  for (size_t i = 0; i < function.outputs().size(); ++i) {
    const bool is_written = i >= effects.writes_result.size() || effects.writes_result[i];
    if (is_written) add(writes, function.outputs()[i], /*is_write=*/true);
  }
  issue(function, writes, call.outer);
}

// For programs that this library is preloaded into.
[[gnu::constructor]] void begin_to_watch() {
  if (std::getenv("FAKE_CUDA_WATCHES_ORDER") != nullptr) watch_order(/*collects=*/false);
}

}  // namespace

void watch_order(bool collects) {
  if (collects) collect_hazards();
  static bool is_watching = false;
  if (std::exchange(is_watching, true)) return;
  at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

}  // namespace fsdp::fake_cuda
