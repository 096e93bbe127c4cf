#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Reads pickles (https://docs.python.org/3/library/pickle.html) that torch.save writes of a
// dictionary of tensors, and no others. Nothing is ever called: a name that a pickle asks for is
// one of the few below, whose meaning is known here, or the pickle is refused.
namespace fsdp {

// A tensor: where it is in a storage, whose bytes are in a file of their own.
struct PickledTensor {
  std::string_view storage;  // the name of its file, within the pickle
  uint64_t storage_items = 0;
  uint64_t first_item = 0;     // of the storage; all of the tensor's are within storage_items
  std::string_view dtype;      // as safetensors names it
  std::vector<int64_t> shape;  // its elements follow each other, the last dimension's first
};

// The largest pickle that is read; that of 50,000 tensors is half as large.
inline constexpr size_t kLargestPickleBytes = 16 << 20;

// Returns the tensors of the pickle in `bytes` by name. Throws ConfigError (place: `file`) if the
// pickle is damaged, holds or asks for anything but tensors, or makes values that take far more
// memory than itself. A tensor with elements that do not follow each other is refused, too.
std::map<std::string, PickledTensor> read_pickled_tensors(const std::filesystem::path& file,
                                                          std::string_view bytes);

}  // namespace fsdp
