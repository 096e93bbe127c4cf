#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "formats/tokenizers/tokenizer.h"
#include "trainer/checkpoint/safetensors_writer.h"
#include "trainer/model/model.h"

namespace fsdp {

inline constexpr int64_t kMaxFileBytes = 5'000'000'000;  // as transformers' save_pretrained

// The files of a folder that holds whole weights.
struct ModelFiles {
  std::string weights = "model";  // the stem of the weights' files
  int64_t max_file_bytes = kMaxFileBytes;
  std::string config_name = "config.json";
  std::string config{};              // its text; empty: the file is not written
  std::vector<PlacedFile> copied{};  // the tokenizer's, and others of the model's source
};

// Returns the files of a Hugging Face model. config.json is the source's, or made from
// spec.model.config if the model has no source. If the run trains adapters, returns PEFT's files.
// `dtype` is the stored weights' type. The tokenizer is the run's, wherever it comes from.
ModelFiles model_files(const RunSpec& spec, const ModelConfig& config, at::ScalarType dtype);

// Return the stored dtype and the files of the merged model.
at::ScalarType merged_dtype(const RunSpec& spec);
ModelFiles merged_model_files(const RunSpec& spec, const ModelConfig& config);

// Returns the size of the weights' files and of their index.
int64_t full_weights_bytes(std::span<const ParameterPtr> parameters, at::ScalarType dtype,
                           const ModelFiles& files = {});

// Writes whole weights as model.safetensors, and the other ModelFiles. Above max_file_bytes, writes
// model-<i>-of-<n>.safetensors and model.safetensors.index.json. Each parameter is written when
// write() gets it, so the parameters need not be in memory together. Only one process writes.
// Errors are std::runtime_errors that name the remedy.
class FullWeightsWriter {
 public:
  // `parameters` has each parameter once, in the model's order.
  FullWeightsWriter(std::filesystem::path folder, std::span<const ParameterPtr> parameters,
                    at::ScalarType dtype, ModelFiles files = {});

  // Writes the value of a parameter, which may be on any device. Call it once for each parameter,
  // in any order. Waits and throws as WriterThread::write does.
  void write(const Parameter& parameter, const at::Tensor& whole, WriterThread& thread);

  // Writes the other files, and waits until all are on the disk. Returns their checksums. Throws
  // std::logic_error if a parameter was not written.
  Checksums finish();

 private:
  std::filesystem::path folder_;
  at::ScalarType dtype_;
  ModelFiles names_;
  std::vector<std::string> file_names_;
  std::vector<std::unique_ptr<SafetensorsWriter>> files_;
  std::unordered_map<std::string, size_t> file_of_;  // by tensor name
  std::string index_;  // the text of the index; empty if there is one file
};

}  // namespace fsdp
