#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/text/config_error.h"
#include "formats/tokenizers/bpe_tokenizer.h"

// libFuzzer's target for the readers of tokenizer.json and tiktoken files. A tokenizer that is read
// has only ids below vocab_size. A refusal is a ConfigError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const fsdp::BpeTokenizer tokenizer(fsdp::looks_like_tiktoken(text)
                                         ? fsdp::read_tiktoken("input", text)
                                         : fsdp::read_tokenizer_json("input", text));
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  tokenizer.encode_with_special("  The e\u0301mojis \u4f60\u597d 123<|end|>ababab\n\xff", ids);
  const fsdp::Tokenizer::Ends& ends = tokenizer.ends();
  for (const auto& id : {ends.begin, ends.end, ends.padding}) ids.push_back(id.value_or(0));
  for (const int32_t id : ids) {
    if (id < 0 || id >= tokenizer.vocab_size()) throw std::logic_error("an id that is none");
  }
  return 0;
} catch (const fsdp::ConfigError&) {
  return 0;
}
