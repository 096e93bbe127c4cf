#pragma once

#include <filesystem>
#include <optional>

#include "contract/families/module_spec.h"
#include "formats/weights/safetensors.h"

namespace fsdp {

// A weight that bitsandbytes stored in NF4 with double quantization: 4 bits for each value in
// blocks of 64, and 8 bits for each block's scale, in blocks of 256 (its Params4bit and
// QuantState).
struct StoredNf4 {
  StoredTensor values;            // U8, two values in each byte
  StoredTensor scales;            // U8, indices of map_of_scales
  StoredTensor map_of_scales;     // F32 [256]
  StoredTensor scales_of_scales;  // F32
  float mean_of_scales = 0;       // was subtracted from the scales
};

// Returns the parts of `tensor`; nullopt if it is not stored by bitsandbytes. Throws ConfigError
// (place: the folder) if it was quantized in another way, or parts do not fit.
std::optional<StoredNf4> find_nf4(const std::filesystem::path& folder, const StoredTensors& stored,
                                  const NamedTensor& tensor);

}  // namespace fsdp
