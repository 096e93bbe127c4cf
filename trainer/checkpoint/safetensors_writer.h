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

// Writes one safetensors file from a known list of tensors, one at a time in any order. They need
// not be in memory together. Throws as OutputFile does.
class SafetensorsWriter {
 public:
  // Creates the file and writes its header. The data follow in the order of `tensors`, whose names
  // differ.
  SafetensorsWriter(std::filesystem::path path, const std::vector<SafetensorsTensor>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // Writes the values of a tensor, once each: contiguous, of any shape, on any device. Waits and
  // throws as WriterThread::write does.
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
