// Writes whole weights as a folder of transformers or PEFT, in shards of a limited size.
#include "trainer/checkpoint/full_weights_writer.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files/input_file.h"
#include "trainer/checkpoint/output_file.h"
#include "trainer/checkpoint/stored_dtype.h"

namespace fsdp {
namespace {

using Tensors = std::vector<SafetensorsTensor>;

const std::map<std::string, std::string>& metadata() {
  static const std::map<std::string, std::string> format{{"format", "pt"}};  // for transformers
  return format;
}

// Splits tensors into files, in order. A file exceeds the limit only if its single tensor does.
std::vector<Tensors> split_into_files(std::span<const ParameterPtr> parameters,
                                      at::ScalarType dtype, int64_t max_file_bytes) {
  const auto item_bytes = static_cast<int64_t>(c10::elementSize(dtype));
  std::vector<Tensors> files(1);
  int64_t file_bytes = 0;
  for (const ParameterPtr& parameter : parameters) {
    for (const NamedTensor& tensor : parameter->tensors()) {
      const int64_t bytes = c10::multiply_integers(tensor.shape) * item_bytes;
      if (!files.back().empty() && bytes > max_file_bytes - file_bytes) {
        files.emplace_back();
        file_bytes = 0;
      }
      files.back().push_back({tensor.name, stored_name(dtype), tensor.shape, bytes});
      file_bytes += bytes;
    }
  }
  return files;
}

std::string file_name(const std::string& stem, size_t index, size_t count) {
  if (count == 1) return stem + ".safetensors";
  const auto five_digits = [](size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
  };
  return stem + "-" + five_digits(index + 1) + "-of-" + five_digits(count) + ".safetensors";
}

std::string index_text(const std::string& stem, const std::vector<Tensors>& files,
                       at::ScalarType dtype) {
  nlohmann::json weight_map = nlohmann::json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    for (const SafetensorsTensor& tensor : files[i]) {
      weight_map[tensor.name] = file_name(stem, i, files.size());
      bytes += tensor.size_bytes;
    }
  }
  nlohmann::ordered_json index;
  index["metadata"]["total_parameters"] = bytes / static_cast<int64_t>(c10::elementSize(dtype));
  index["metadata"]["total_size"] = bytes;
  index["weight_map"] = std::move(weight_map);
  return index.dump(2) + '\n';
}

}  // namespace

int64_t full_weights_bytes(std::span<const ParameterPtr> parameters, at::ScalarType dtype,
                           const ModelFiles& names) {
  const std::vector<Tensors> files = split_into_files(parameters, dtype, names.max_file_bytes);
  int64_t bytes = files.size() > 1 ? std::ssize(index_text(names.weights, files, dtype)) : 0;
  for (const Tensors& tensors : files) bytes += safetensors_file_bytes(tensors, metadata());
  return bytes;
}

FullWeightsWriter::FullWeightsWriter(std::filesystem::path folder,
                                     std::span<const ParameterPtr> parameters, at::ScalarType dtype,
                                     ModelFiles names)
    : folder_(std::move(folder)), dtype_(dtype), names_(std::move(names)) {
  const std::vector<Tensors> files = split_into_files(parameters, dtype, names_.max_file_bytes);
  for (size_t i = 0; i < files.size(); ++i) {
    file_names_.push_back(file_name(names_.weights, i, files.size()));
    files_.push_back(
        std::make_unique<SafetensorsWriter>(folder_ / file_names_.back(), files[i], metadata()));
    for (const SafetensorsTensor& tensor : files[i]) file_of_.emplace(tensor.name, i);
  }
  if (files.size() > 1) index_ = index_text(names_.weights, files, dtype);
}

void FullWeightsWriter::write(const Parameter& parameter, const at::Tensor& whole,
                              WriterThread& thread) {
  const std::string& first_name = parameter.tensors().front().name;
  TORCH_CHECK(whole.scalar_type() == dtype_ && whole.numel() == parameter.numel(), first_name,
              " has ", whole.numel(), " elements of dtype ", whole.scalar_type());
  const at::Tensor values = whole.flatten();
  // A parameter may hold several stacked tensors, such as q, k and v.
  int64_t begin = 0;
  for (const NamedTensor& tensor : parameter.tensors()) {
    const auto file = file_of_.find(tensor.name);
    TORCH_CHECK(file != file_of_.end(), tensor.name, " is none of the parameters to be written");
    const int64_t count = c10::multiply_integers(tensor.shape);
    files_[file->second]->write(tensor.name, values.narrow(0, begin, count), thread);
    begin += count;
  }
}

Checksums FullWeightsWriter::finish() {
  Checksums checksums;
  const auto add_file = [&](const std::string& name, std::string_view text) {
    checksums[name] = write_file(folder_ / name, text);
  };
  for (size_t i = 0; i < files_.size(); ++i) checksums[file_names_[i]] = files_[i]->finish();
  if (!index_.empty()) add_file(names_.weights + ".safetensors.index.json", index_);
  if (!names_.config.empty()) add_file(names_.config_name, names_.config);
  for (const auto& [name, source, text] : names_.copied) {
    const std::filesystem::path folder = (folder_ / name).parent_path();
    std::error_code error;
    std::filesystem::create_directory(folder, error);
    if (error) fail_to_write(folder, error.value());
    add_file(name, source.empty() ? text : read_input_file(source));
    if (folder != folder_) sync_folder(folder);
  }
  return checksums;
}

}  // namespace fsdp
