#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "trainer/checkpoint/writer_thread.h"

namespace fsdp {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F32", ...
  std::vector<int64_t> shape;
  int64_t size_bytes = 0;
};

// Returns the size of a safetensors file with these tensors.
int64_t safetensors_file_bytes(const std::vector<SafetensorsTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

// Writes one safetensors file with a known list of tensors. The tensors are written one at a time,
// in any order, and need not be in memory together. Throws as OutputFile does.
class SafetensorsWriter {
 public:
  // Creates the file and writes its header. The file holds the data in the order of `tensors`.
  // Throws std::logic_error if two tensors have the same name.
  SafetensorsWriter(std::filesystem::path path, const std::vector<SafetensorsTensor>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // Writes the values of the tensor `name`. Call it once for each tensor. `values` is contiguous,
  // of any shape, on any device. Waits and throws as WriterThread::write does.
  void write(const std::string& name, const at::Tensor& values, WriterThread& thread);

  // Waits until the file is on the disk. Returns its checksum. Throws std::logic_error if a tensor
  // was not written.
  std::string finish();

 private:
  struct Place {
    int64_t offset;
    int64_t size_bytes;
  };
  std::unordered_map<std::string, Place> unwritten_;
  OutputFilePtr file_;
};

}  // namespace fsdp
