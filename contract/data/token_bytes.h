#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "contract/files/input_file.h"
#include "contract/spec/data_spec.h"

// What the bytes of a .bin of tokens tell about how wide its tokens are.
namespace fsdp {

// Throws ConfigError (place: the file) if `file` is not tokens alone: a header of llm.c, NumPy or
// an archive is at its begin. If no dtype was chosen, also if an index of Megatron-LM beside it
// names another dtype than `read_as`.
void require_bare_tokens(const InputFile& file, TokenDtype read_as, bool is_chosen);

// The largest token at each place of every 8 bytes. Of uint32, places 2 and 3 stay 0.
struct LargestTokens {
  std::array<uint32_t, 4> at{};
  int64_t count = 0;
};

// "every second token is 0, as in a file of uint32", with what to do, if the tokens were read as
// narrower ones than they are; empty if they are plausible.
std::string wider_tokens(const LargestTokens& largest, TokenDtype read_as);

}  // namespace fsdp
