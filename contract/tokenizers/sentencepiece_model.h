#pragma once

#include <string_view>

namespace fsdp {

// Checks what libsentencepiece takes on trust in a serialized ModelProto: the tables of its
// normalizers stay inside their bytes, and its pieces fit the library's buffers and its stack.
// Throws std::invalid_argument.
void check_sentencepiece_model(std::string_view contents);

}  // namespace fsdp
