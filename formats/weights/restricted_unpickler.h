#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Reads only pickles (https://docs.python.org/3/library/pickle.html) of a dictionary of tensors, as
// torch.save writes them. Nothing in a pickle is called. A pickle may use only the few names whose
// meaning is known here; others are refused.
namespace fsdp {

// A tensor's place in a storage. Each storage has a file of its own.
struct PickledTensor {
  std::string_view storage;  // the name of its file, within the pickle
  uint64_t storage_items = 0;
  uint64_t first_item = 0;     // of the storage; all of the tensor's are within storage_items
  std::string_view dtype;      // as safetensors names it
  std::vector<int64_t> shape;  // its elements follow each other, the last dimension's first
};

// The largest pickle that is read. A pickle of 50,000 tensors has half this size.
inline constexpr size_t kLargestPickleBytes = 16 << 20;

// Returns the tensors of the pickle in `bytes` by name. Throws ConfigError (place: `file`) if the
// pickle is damaged, or holds or asks for anything but tensors. Also throws if its values take far
// more memory than the pickle, or if a tensor's elements do not follow each other.
std::map<std::string, PickledTensor> read_pickled_tensors(const std::filesystem::path& file,
                                                          std::string_view bytes);

}  // namespace fsdp
