#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/data_spec.h"
#include "formats/tokenizers/tokenizer.h"

namespace fsdp {

// A question to a trained model.
struct Prompt {
  std::vector<int32_t> ids;      // what the model reads before its answer
  std::optional<int32_t> end{};  // the token with which answers end in the training data
};

// Writes `text` as the questions of the training data: as a chat's first turn, as an instruction,
// as an article. Data of other kinds is continued. Throws ConfigError (key: data.kind) for tokens,
// and the errors that a record of the data would get.
Prompt make_prompt(const DataSpec& data, const Tokenizer& tokenizer,
                   const std::optional<ChatTemplate>& chat_template, const std::string& text);

}  // namespace fsdp
