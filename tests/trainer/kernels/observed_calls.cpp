#include "tests/trainer/kernels/observed_calls.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>

namespace {

using Call = ObservedCalls::Call;

struct Context : at::ObserverContext {
  size_t index = 0;
};

std::vector<Call>& observed() {
  thread_local std::vector<Call> calls;
  return calls;
}

template <typename Values>
int64_t bytes_of(const Values& values) {
  int64_t bytes = 0;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) {
      bytes += static_cast<int64_t>(value.toTensor().nbytes());
    }
  }
  return bytes;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  auto context = std::make_unique<Context>();
  context->index = observed().size();
  observed().push_back({function.name(), bytes_of(function.inputs()), 0});
  return context;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  observed()[static_cast<Context*>(context)->index].written_bytes = bytes_of(function.outputs());
}

bool is_allocation(const Call& call) { return call.name == "aten::empty"; }

bool is_launch(const Call& call) {
  const auto names = {"aten::empty", "aten::empty_like", "aten::view", "aten::narrow",
                      "aten::slice"};
  return std::none_of(names.begin(), names.end(),
                      [&](const char* name) { return call.name == name; });
}

}  // namespace

ObservedCalls::ObservedCalls() {
  observed().clear();
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

ObservedCalls::~ObservedCalls() { at::removeCallback(handle_); }

std::vector<std::string> ObservedCalls::launches() const {
  std::vector<std::string> names;
  for (const Call& call : observed()) {
    if (is_launch(call)) names.push_back(call.name);
  }
  return names;
}

std::vector<int64_t> ObservedCalls::allocations() const {
  std::vector<int64_t> bytes;
  for (const Call& call : observed()) {
    if (is_allocation(call)) bytes.push_back(call.written_bytes);
  }
  return bytes;
}

ObservedCalls::Call ObservedCalls::call(const std::string& name) const {
  const auto found = std::find_if(observed().begin(), observed().end(),
                                  [&](const Call& call) { return call.name == name; });
  TORCH_CHECK(found != observed().end(), "nothing called ", name);
  return *found;
}
