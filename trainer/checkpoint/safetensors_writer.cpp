// Writes a safetensors file. The header comes first, so tensors may follow in any order.
#include "trainer/checkpoint/safetensors_writer.h"

#include <array>
#include <bit>
#include <stdexcept>

#include "base/text/json.h"

namespace fsdp {
namespace {

static_assert(std::endian::native == std::endian::little);

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  text += ']';
  return text;
}

// Returns the header, preceded by its length. Spaces at its end align the data that follow.
std::string header_text(const std::vector<SafetensorsTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (text.back() != '{') text += ',';
    append_json_string(text, key);
    text += ':';
    append_json_string(text, value);
  }
  text += '}';
  int64_t begin = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const int64_t end = begin + tensor.size_bytes;
    text += ',';
    append_json_string(text, tensor.name);
    text += ":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":" + shape_text(tensor.shape) +
            ",\"data_offsets\":[" + std::to_string(begin) + ',' + std::to_string(end) + "]}";
    begin = end;
  }
  text += '}';
  constexpr size_t kAlignment = 8;
  while (text.size() % kAlignment != 0) text += ' ';
  const auto length = std::bit_cast<std::array<char, sizeof(uint64_t)>>(uint64_t{text.size()});
  text.insert(0, length.data(), length.size());
  return text;
}

}  // namespace

int64_t safetensors_file_bytes(const std::vector<SafetensorsTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  auto bytes = static_cast<int64_t>(header_text(tensors, metadata).size());
  for (const SafetensorsTensor& tensor : tensors) bytes += tensor.size_bytes;
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     const std::vector<SafetensorsTensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(std::make_shared<OutputFile>(std::move(path))) {
  const std::string header = header_text(tensors, metadata);
  file_->write(0, std::as_bytes(std::span(header)));
  auto offset = static_cast<int64_t>(header.size());
  for (const SafetensorsTensor& tensor : tensors) {
    if (!unwritten_.try_emplace(tensor.name, offset, tensor.size_bytes).second) {
      throw std::logic_error(tensor.name + " is twice in " + file_->path().string());
    }
    offset += tensor.size_bytes;
  }
}

void SafetensorsWriter::write(const std::string& name, const at::Tensor& values,
                              WriterThread& thread) {
  const auto found = unwritten_.find(name);
  const auto size_bytes = static_cast<int64_t>(values.nbytes());
  if (found == unwritten_.end() || found->second.size_bytes != size_bytes) {
    throw std::logic_error(name + ", " + std::to_string(size_bytes) + " bytes, is not due in " +
                           file_->path().string());
  }
  thread.write(file_, found->second.offset, values);
  unwritten_.erase(found);
}

std::string SafetensorsWriter::finish() {
  if (!unwritten_.empty()) {
    throw std::logic_error(unwritten_.begin()->first + " was not written to " +
                           file_->path().string());
  }
  return file_->finish();
}

}  // namespace fsdp
