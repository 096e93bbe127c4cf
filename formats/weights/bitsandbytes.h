#pragma once

#include <filesystem>
#include <optional>

#include "contract/families/module_spec.h"
#include "formats/weights/safetensors.h"

namespace fsdp {

// A weight that bitsandbytes stored in NF4 with double quantization (its Params4bit and
// QuantState). Values have 4 bits each, in blocks of 64. Each block's scale has 8 bits, and scales
// form blocks of 256.
struct StoredNf4 {
  StoredTensor values;            // U8, two values in each byte
  StoredTensor scales;            // U8, indices into map_of_scales
  StoredTensor map_of_scales;     // F32 [256]
  StoredTensor scales_of_scales;  // F32, one for each block of 256 scales
  float mean_of_scales = 0;       // was subtracted from the scales
};

// Returns the parts of `tensor`; nullopt if bitsandbytes did not store it. Throws ConfigError
// (place: the folder) if it was quantized in another way, or parts do not fit.
std::optional<StoredNf4> find_nf4(const std::filesystem::path& folder, const StoredTensors& stored,
                                  const NamedTensor& tensor);

}  // namespace fsdp
