#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

// Splits a CSV record into `fields`. Returns the problem if the record is malformed, else "".
std::string split_csv_record(std::string_view record, std::vector<std::string>& fields);

// Returns the length of the record at the start of `text`, with its line end. Returns npos if a
// quote stays open or `text` is longer than `most` bytes without a line end.
size_t csv_record_length(std::string_view text, size_t most);

}  // namespace fsdp
