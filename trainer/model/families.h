#pragma once

#include "contract/families/adapters.h"
#include "contract/families/model_config.h"
#include "trainer/model/model.h"

namespace fsdp {

// Makes the model of `config`, for any family (see contract/families/family.h). `config` has been
// checked. Constant buffers, such as rotary tables, are rounded to `buffer_type` before they get
// the activations' type.
Model make_model(const ModelConfig& config, at::ScalarType buffer_type = at::kFloat,
                 Method method = Method::kFull, const LoraSpec& lora = {});

}  // namespace fsdp
