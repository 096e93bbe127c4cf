#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

// The fields of one record of a CSV, into `fields`. Returns what is wrong with it; empty: nothing.
std::string split_csv_record(std::string_view record, std::vector<std::string>& fields);

// How long the record is that `text` begins with, its line's end included; npos: a quote is open.
// Looks no further than `most` bytes.
size_t csv_record_length(std::string_view text, size_t most);

}  // namespace fsdp
