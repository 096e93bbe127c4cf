#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "contract/spec/run_spec.h"
#include "trainer/checkpoint/safetensors_writer.h"
#include "trainer/model/model.h"

namespace fsdp {

inline constexpr int64_t kMaxFileBytes = 5'000'000'000;  // as transformers' save_pretrained

// Writes what makes a folder a Hugging Face model besides weights. For a model with a source: its
// config.json, and generation_config.json and the tokenizer's files when it has them; else a
// config.json of ModelConfig. The config's dtype is that of the stored weights.
void write_model_files(const std::filesystem::path& folder, const ModelSpec& model,
                       at::ScalarType dtype);

// Writes whole weights as model.safetensors, or, above `max_file_bytes`, as
// model-<i>-of-<n>.safetensors and model.safetensors.index.json. Each parameter goes to its place
// in the files at once, so that they are never in memory together. One process writes; its errors
// are std::runtime_errors that say what to do.
class FullWeightsWriter {
 public:
  // `parameters`: each once, in the model's order.
  FullWeightsWriter(std::filesystem::path folder, std::span<const ParameterPtr> parameters,
                    at::ScalarType dtype, int64_t max_file_bytes = kMaxFileBytes);

  // The value of one of the parameters that was not written yet, on any device. In any order. As
  // WriterThread::write.
  void write(const Parameter& parameter, const at::Tensor& whole, WriterThread& thread);

  // Waits until the disk has everything. Returns the files' checksums. Throws std::logic_error when
  // a parameter was not written.
  Checksums finish();

 private:
  std::string write_index() const;

  std::filesystem::path folder_;
  at::ScalarType dtype_;
  std::vector<std::string> file_names_;
  std::vector<std::unique_ptr<SafetensorsWriter>> files_;
  std::unordered_map<std::string, size_t> file_of_;  // by tensor name
  int64_t parameter_count_ = 0;
};

// The limit for CheckpointSpec::single_file.
inline int64_t max_file_bytes(const CheckpointSpec& spec) {
  return spec.single_file ? std::numeric_limits<int64_t>::max() : kMaxFileBytes;
}

}  // namespace fsdp
