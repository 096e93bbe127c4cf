#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/text/config_error.h"
#include "formats/tokenizers/hugging_face_folder.h"

// libFuzzer's target for SentencePiece models. A model that is read has only ids below vocab_size.
// A refusal is a ConfigError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = fsdp::open_sentencepiece("input", model, {});
  std::vector<int32_t> ids;
  tokenizer->encode(model.substr(0, 1000), ids);
  tokenizer->encode_with_special("  The e\u0301mojis \ufb01\u3300\u4f60\u597d 123<s>abab\n\xff",
                                 ids);
  for (const int32_t id : ids) {
    if (id < 0 || id >= tokenizer->vocab_size()) throw std::logic_error("an id that is none");
  }
  return 0;
} catch (const fsdp::ConfigError&) {
  return 0;
}
