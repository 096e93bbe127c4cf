#include "tests/trainer/model/launch_counter.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/operator_name.h>

#include <algorithm>
#include <array>
#include <iomanip>
#include <map>
#include <sstream>

namespace fsdp {
namespace {

std::vector<Launch> all_launches;

// An operation under way. Its inputs are there at its start only.
struct Begun : at::ObserverContext {
  size_t launches_before = all_launches.size();  // to know whether it was made of others
  int64_t bytes = 0;
};

bool is_any(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) {
    return name.find(part) != std::string::npos;
  });
}

// What a tensor occupies; an expanded one once.
int64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  int64_t bytes = static_cast<int64_t>(tensor.element_size());
  for (int64_t i = 0; i < tensor.dim(); ++i) bytes *= tensor.stride(i) == 0 ? 1 : tensor.size(i);
  return bytes;
}

int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  if (!value.isTensorList()) return 0;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
  return bytes;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  auto begun = std::make_unique<Begun>();
  const auto schema = function.operator_schema();
  const auto inputs = function.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t bytes = bytes_of(inputs[i]);
    begun->bytes += bytes;
    if (!schema) continue;
    const c10::Argument& argument = schema->arguments().at(i);
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool is_only_written =
        argument.is_out() || is_any(function.name(), {"copy_", "fill_", "zero_"});
    if (is_written && !is_only_written) begun->bytes += bytes;
  }
  return begun;
}

bool is_view(const at::RecordFunction& function) {
  const auto schema = function.operator_schema();
  if (!schema || schema->returns().empty()) return false;
  const c10::AliasInfo* alias = schema->returns().front().alias_info();
  return alias != nullptr && !alias->isWrite();
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  const std::string name = function.name();
  const Begun& begun = static_cast<const Begun&>(*context);
  const bool calls_others = all_launches.size() > begun.launches_before;
  if (calls_others || is_view(function) || is_any(name, {"aten::empty", "aten::is_"})) return;
  Launch launch{.name = name, .bytes = begun.bytes};
  launch.is_product = is_any(name, {"aten::addmm", "aten::mm", "mkldnn_matmul"});
  launch.is_attention = is_any(name, {"attention"});
  const auto schema = function.operator_schema();
  const std::vector<c10::IValue>& outputs = function.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_new = !schema || schema->returns().at(i).alias_info() == nullptr;
    if (is_new) launch.bytes += bytes_of(outputs[i]);
  }
  all_launches.push_back(launch);
}

}  // namespace

LaunchCounter::LaunchCounter()
    : callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(on_start, on_end).needsInputs(true).needsOutputs(true))) {
  all_launches.clear();
}

LaunchCounter::~LaunchCounter() { at::removeCallback(callback_); }

const std::vector<Launch>& LaunchCounter::launches() { return all_launches; }

int64_t bytes_moved(const std::vector<Launch>& launches) {
  int64_t bytes = 0;
  for (const Launch& launch : launches) {
    if (!launch.is_product && !launch.is_attention) bytes += launch.bytes;
  }
  return bytes;
}

std::string table_of(const std::vector<Launch>& launches, int64_t tokens) {
  std::map<std::string, Launch> by_name;
  std::map<std::string, int> counts;
  for (const Launch& launch : launches) {
    by_name[launch.name].bytes += launch.bytes;
    ++counts[launch.name];
  }
  std::ostringstream text;
  for (const auto& [name, launch] : by_name) {
    text << std::setw(4) << counts[name] << "  " << std::setw(9) << std::fixed
         << std::setprecision(1) << static_cast<double>(launch.bytes) / 1000 / tokens
         << " kB a token  " << name << '\n';
  }
  return text.str();
}

}  // namespace fsdp
