#include "trainer/train/random_state.h"

#include <ATen/ATen.h>

#include <charconv>
#include <mutex>

namespace fsdp {
namespace {

at::Generator generator_of(at::Device device) {
  return at::globalContext().defaultGenerator(device);
}

std::string hexadecimal(const at::Tensor& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int64_t i = 0; i < bytes.numel(); ++i) {
    const uint8_t byte = bytes.const_data_ptr<uint8_t>()[i];
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

std::string read_state(at::Device device) {
  at::Generator generator = generator_of(device);
  const std::lock_guard lock(generator.mutex());
  return hexadecimal(generator.get_state());
}

bool write_state(const std::string& text, at::Device device) {
  at::Generator generator = generator_of(device);
  const std::lock_guard lock(generator.mutex());
  at::Tensor bytes = generator.get_state().clone();
  bool is_right = std::ssize(text) == 2 * bytes.numel();
  for (int64_t i = 0; is_right && i < bytes.numel(); ++i) {
    const char* digits = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, bytes.data_ptr<uint8_t>()[i], 16);
    is_right = error == std::errc() && end == digits + 2;
  }
  if (!is_right) return false;
  try {
    generator.set_state(bytes);
  } catch (const c10::Error&) {  // such bytes are no state
    return false;
  }
  return true;
}

}  // namespace

GeneratorState generator_state(at::Device device) {
  GeneratorState state{.cpu = read_state(at::kCPU), .cuda = std::nullopt};
  if (device.is_cuda()) state.cuda = read_state(device);
  return state;
}

bool set_generator_state(const GeneratorState& state, at::Device device) {
  const bool is_cpu_set = write_state(state.cpu, at::kCPU);
  return (!device.is_cuda() || !state.cuda || write_state(*state.cuda, device)) && is_cpu_set;
}

}  // namespace fsdp
