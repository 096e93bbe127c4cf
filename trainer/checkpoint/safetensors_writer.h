#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "trainer/checkpoint/writer_thread.h"

namespace fsdp {

// One tensor of a file that is to be written.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F32", ...
  std::vector<int64_t> shape;
  int64_t size_bytes = 0;
};

// Writes one safetensors file whose tensors are known beforehand, one tensor at a time in any
// order, so that they need not be in memory together. Throws as OutputFile does.
class SafetensorsWriter {
 public:
  // Creates the file and writes its header; the data follow in the order of `tensors`, whose names
  // differ.
  SafetensorsWriter(std::filesystem::path path, const std::vector<SafetensorsTensor>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // The values of a tensor that has not been written yet: contiguous, of any shape, on any device.
  // As WriterThread::write.
  void write(const std::string& name, const at::Tensor& values, WriterThread& thread);

  // Waits until the disk has everything. Returns the file's checksum. Throws std::logic_error when
  // a tensor was not written.
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
