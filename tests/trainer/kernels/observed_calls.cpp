#include "tests/trainer/kernels/observed_calls.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>

namespace {

using Call = ObservedCalls::Call;

struct Context : at::ObserverContext {
  size_t index = 0;
};

std::vector<Call>& observed() {
  thread_local std::vector<Call> calls;
  return calls;
}

bool has_any(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

int64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  auto bytes = static_cast<int64_t>(tensor.element_size());
  for (int64_t i = 0; i < tensor.dim(); ++i) bytes *= tensor.stride(i) == 0 ? 1 : tensor.size(i);
  return bytes;
}

int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  int64_t bytes = 0;
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
  }
  return bytes;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Reads the inputs, which are available only at the begin.
std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  auto context = std::make_unique<Context>();
  context->index = observed().size();
  Call call{.name = function.name()};
  const auto schema = function.operator_schema();
  const auto inputs = function.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t bytes = bytes_of(inputs[i]);
    const bool changes = schema && is_written(schema->arguments().at(i));
    const bool is_read = !changes || !(schema->arguments()[i].is_out() ||
                                       has_any(call.name, {"copy_", "fill_", "zero_"}));
    if (is_read) call.read_bytes += bytes;
    if (changes) call.written_bytes += bytes;
  }
  if (schema && !schema->returns().empty()) {
    const c10::AliasInfo* alias = schema->returns().front().alias_info();
    call.is_view = alias != nullptr && !alias->isWrite();
  }
  observed().push_back(call);
  return context;
}

bool is_allocation(const Call& call) {
  return call.name == "aten::empty" || call.name == "aten::empty_strided";
}

bool is_launch(const Call& call) {
  return !call.is_view && !call.calls_others && !has_any(call.name, {"aten::empty", "aten::is_"});
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const size_t index = static_cast<Context*>(context)->index;
  Call& call = observed()[index];
  call.calls_others = std::any_of(observed().begin() + static_cast<ptrdiff_t>(index) + 1,
                                  observed().end(), is_launch);
  const auto schema = function.operator_schema();
  const std::vector<c10::IValue>& outputs = function.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_new = !schema || schema->returns().at(i).alias_info() == nullptr;
    if (is_new) call.written_bytes += bytes_of(outputs[i]);
  }
}

bool is_product(const Call& call) { return has_any(call.name, {"addmm", "::mm", "_matmul"}); }

bool is_attention(const Call& call) { return has_any(call.name, {"attention", "fused_attn"}); }

}  // namespace

ObservedCalls::ObservedCalls() {
  observed().clear();
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

ObservedCalls::~ObservedCalls() { at::removeCallback(handle_); }

std::vector<Call> ObservedCalls::launches() const {
  std::vector<Call> launches;
  std::copy_if(observed().begin(), observed().end(), std::back_inserter(launches), is_launch);
  return launches;
}

std::vector<std::string> ObservedCalls::names_of_launches() const {
  std::vector<std::string> names;
  for (const Call& call : launches()) names.push_back(call.name);
  return names;
}

std::vector<int64_t> ObservedCalls::allocations() const {
  std::vector<int64_t> bytes;
  for (const Call& call : observed()) {
    if (is_allocation(call)) bytes.push_back(call.written_bytes);
  }
  return bytes;
}

Call ObservedCalls::call(const std::string& name) const {
  const auto found = std::find_if(observed().begin(), observed().end(),
                                  [&](const Call& call) { return call.name == name; });
  TORCH_CHECK(found != observed().end(), "nothing called ", name);
  return *found;
}

std::string ObservedCalls::table_of(const std::vector<Call>& calls, int64_t tokens) {
  std::map<std::string, std::pair<int, int64_t>> by_name;
  for (const Call& call : calls) {
    auto& [count, bytes] = by_name[call.name];
    ++count;
    bytes += call.read_bytes + call.written_bytes;
  }
  std::ostringstream text;
  for (const auto& [name, figures] : by_name) {
    const double bytes_per_token =
        static_cast<double>(figures.second) / static_cast<double>(tokens);
    text << std::setw(3) << figures.first << std::setw(9) << std::fixed << std::setprecision(1)
         << bytes_per_token / 1000 << " kB  " << name << '\n';
  }
  return text.str();
}

int64_t ObservedCalls::bytes_moved(const std::vector<Call>& calls) {
  int64_t bytes = 0;
  for (const Call& call : calls) {
    if (!is_product(call) && !is_attention(call)) bytes += call.read_bytes + call.written_bytes;
  }
  return bytes;
}

int64_t ObservedCalls::count_products(const std::vector<Call>& calls) {
  return std::count_if(calls.begin(), calls.end(), is_product);
}
