// Reads weights that bitsandbytes stored in NF4, from several tensors each.
#include "formats/weights/bitsandbytes.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files/input_file.h"
#include "base/text/foreign_json.h"

namespace fsdp {
namespace {

using nlohmann::json;

constexpr const char* kAllowed =
    "; allowed: NF4 in blocks of 64 with double quantization (bnb_4bit_quant_type: nf4, "
    "bnb_4bit_use_double_quant: true)";

class Parts {
 public:
  Parts(const std::filesystem::path& folder, const StoredTensors& stored, std::string name)
      : folder_(folder), stored_(stored), name_(std::move(name)) {}

  [[noreturn]] void refuse(const std::string& problem) const {
    refuse_file(folder_, "tensor '" + name_ + "' " + problem);
  }

  const StoredTensor* find(const std::string& suffix) const {
    const auto found = stored_.find(name_ + suffix);
    return found == stored_.end() ? nullptr : &found->second;
  }

  const StoredTensor& take(const std::string& suffix, const std::string& dtype,
                           uint64_t size_bytes) const {
    const StoredTensor* part = find(suffix);
    if (part == nullptr) refuse("was quantized without " + name_ + suffix + kAllowed);
    if (part->dtype != dtype || part->size_bytes != size_bytes) {
      refuse("has a part " + name_ + suffix + " of " + std::to_string(part->size_bytes) +
             " bytes of " + part->dtype + " instead of " + std::to_string(size_bytes) + " of " +
             dtype + kAllowed);
    }
    return *part;
  }

 private:
  const std::filesystem::path& folder_;
  const StoredTensors& stored_;
  std::string name_;
};

// Reads the settings, which are text in a tensor of bytes. Returns the mean of the scales.
float read_settings(const Parts& parts, const StoredTensor& settings, const NamedTensor& tensor) {
  constexpr uint64_t kMostBytes = 10'000;
  if (settings.size_bytes > kMostBytes) parts.refuse("has settings of more than 10,000 bytes");
  std::string text(settings.size_bytes, '\0');
  settings.read(0, std::as_writable_bytes(std::span(text)));
  json object;
  try {
    object = parse_foreign_json(text);
  } catch (const std::exception&) {
    parts.refuse("has settings that are no JSON");
  }
  const json required = {
      {"quant_type", "nf4"}, {"blocksize", 64}, {"nested_blocksize", 256}, {"shape", tensor.shape}};
  for (const auto& [key, value] : required.items()) {
    const json found = object.is_object() ? object.value(key, json()) : json();
    if (found != value) {
      parts.refuse("was quantized with " + key + ' ' + found.dump() + " instead of " +
                   value.dump() + kAllowed);
    }
  }
  const json mean = object.value("nested_offset", json());
  if (!mean.is_number() || !std::isfinite(mean.get<float>())) {
    parts.refuse("has nested_offset " + mean.dump() + ", which is no number");
  }
  return mean.get<float>();
}

}  // namespace

std::optional<StoredNf4> find_nf4(const std::filesystem::path& folder, const StoredTensors& stored,
                                  const NamedTensor& tensor) {
  const Parts parts(folder, stored, tensor.name);
  if (parts.find(".quant_state.bitsandbytes__fp4") != nullptr) {
    parts.refuse(std::string("was quantized to FP4") + kAllowed);
  }
  const StoredTensor* settings = parts.find(".quant_state.bitsandbytes__nf4");
  if (settings == nullptr) return std::nullopt;
  const auto numel = static_cast<uint64_t>(numel_of(tensor));
  const uint64_t blocks = (numel + 63) / 64;
  return StoredNf4{
      .values = parts.take("", "U8", (numel + 1) / 2),
      .scales = parts.take(".absmax", "U8", blocks),
      .map_of_scales = parts.take(".nested_quant_map", "F32", 256 * sizeof(float)),
      .scales_of_scales = parts.take(".nested_absmax", "F32", (blocks + 255) / 256 * sizeof(float)),
      .mean_of_scales = read_settings(parts, *settings, tensor)};
}

}  // namespace fsdp
