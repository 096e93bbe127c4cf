#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "contract/files/input_file.h"
#include "contract/spec/data_spec.h"

// Finds out whether the tokens of a .bin are wider than they are read.
namespace fsdp {

// Throws ConfigError (place: the file) if `file` begins with a header of llm.c or NumPy. Unless a
// dtype was chosen, also refuses two other files: an archive, and a file beside an index of
// Megatron-LM that names another dtype than `read_as`.
void require_bare_tokens(const InputFile& file, TokenDtype read_as, bool is_chosen);

// The largest token at each place within 8 bytes. Places 2 and 3 of uint32 stay 0.
struct LargestTokens {
  std::array<uint32_t, 4> at{};
  int64_t count = 0;
};

// Returns a message if tokens seem to be wider than `read_as`: "every second token is 0, as in a
// file of uint32; ...". Returns an empty text if they are plausible.
std::string wider_tokens(const LargestTokens& largest, TokenDtype read_as);

}  // namespace fsdp
