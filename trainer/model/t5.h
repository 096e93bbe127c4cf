#pragma once

#include "contract/families/model_config.h"
#include "trainer/model/model.h"

namespace fsdp {

// T5 and its version 1.1, numerically Hugging Face's T5ForConditionalGeneration. Modules: the
// embedding, which encoder and decoder share, each block, the encoder's final norm between those of
// encoder and decoder, and the decoder's final norm with head and loss (see
// contract/families/t5.h). A stack's first block writes the bias of distances that all of its
// blocks add; every block of the decoder reads the encoder's output.
//
// Wants a batch with decoder_input_ids; dropout follows from its seed.
Model make_t5(const ModelConfig& config);

}  // namespace fsdp
