#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/text/config_error.h"
#include "contract/spec/run_spec.h"
#include "tests/temporary_folder.h"

// Input files for tests, right and wrong ones.
namespace fsdp {

// Returns the message of the ConfigError that `call` must throw.
template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  FAIL("nothing was refused");
  return {};
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return bytes_of<uint64_t>({header.size()}) + header + data;
}

// A .npy file of the given format version with this header.
inline std::string npy_bytes(const std::string& header, const std::string& data, char version = 1) {
  const auto length = static_cast<uint32_t>(header.size());
  return std::string("\x93NUMPY") + version + '\0' +
         std::string(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4) + header + data;
}

inline std::string npy_of(int64_t rows, int64_t columns, const std::vector<int32_t>& tokens) {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (";
  header += std::to_string(rows) + ", ";
  header += std::to_string(columns) + "), }\n";
  return npy_bytes(header, bytes_of(tokens));
}

// A safetensors file of tensors of these names and shapes in F32, whose elements are 0, 1, 2, ...
// throughout.
inline std::string counting_safetensors(
    const std::map<std::string, std::vector<int64_t>>& tensors) {
  std::string header = "{";
  std::vector<float> data;
  for (const auto& [name, shape] : tensors) {
    size_t numel = 1;
    std::string sizes;
    for (const int64_t size : shape) {
      numel *= static_cast<size_t>(size);
      if (!sizes.empty()) sizes += ',';
      sizes += std::to_string(size);
    }
    const size_t begin = data.size();
    for (size_t i = 0; i < numel; ++i) data.push_back(static_cast<float>(data.size()));
    if (header.size() > 1) header += ',';
    header.append("\"").append(name).append("\":{\"dtype\":\"F32\",\"shape\":[").append(sizes);
    header.append("],\"data_offsets\":[").append(std::to_string(begin * 4)).append(",");
    header.append(std::to_string(data.size() * 4)).append("]}");
  }
  return safetensors_bytes(header + "}", bytes_of(data));
}

}  // namespace fsdp
