#pragma once

#include <string_view>

namespace fsdp {

// Checks parts of a serialized ModelProto that libsentencepiece does not check. The tables of its
// normalizers must stay inside their bytes. Its pieces must fit the library's buffers and its
// stack. Throws std::invalid_argument.
void check_sentencepiece_model(std::string_view contents);

}  // namespace fsdp
