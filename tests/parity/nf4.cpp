// Reads tensors from standard input: the number of values (int64), then the values (fp32). For each
// tensor, writes its NF4 bytes to standard output, then the dequantized values in fp32 and in bf16.
#include "trainer/kernels/nf4.h"

#include <ATen/ATen.h>

#include <iostream>
#include <vector>

namespace {

void write(const at::Tensor& tensor) {
  std::cout.write(static_cast<const char*>(tensor.const_data_ptr()),
                  static_cast<std::streamsize>(tensor.nbytes()));
}

}  // namespace

int main() {
  int64_t numel = 0;
  while (std::cin.read(reinterpret_cast<char*>(&numel), sizeof(numel))) {
    std::vector<float> values(static_cast<size_t>(numel));
    std::cin.read(reinterpret_cast<char*>(values.data()),
                  static_cast<std::streamsize>(values.size() * sizeof(float)));
    fsdp::Nf4Quantizer quantizer(numel);
    quantizer.add(values);
    std::vector<uint8_t> quantized = quantizer.finish();
    const at::Tensor bytes = at::from_blob(quantized.data(), {std::ssize(quantized)}, at::kByte);
    write(bytes);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor out = at::empty({numel}, type);
      fsdp::dequantize_nf4(bytes, out);
      write(out);
    }
  }
}
