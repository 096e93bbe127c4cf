#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/weights/safetensors.h"

// Reads files of tensors that torch.save wrote (pytorch_model.bin), without libtorch and Python.
// Such a file is a zip archive of a pickle, data.pkl, and of the bytes of each storage.
namespace fsdp {

// Reads the tensors of one file, by name, and executes nothing in it. Throws ConfigError (place:
// the file) if the file is cut short, damaged or older than PyTorch 1.6's format. Also throws if it
// holds anything but named tensors.
StoredTensors read_torch(const std::shared_ptr<const InputFile>& file);

// An uncompressed member's place in the archive.
struct ZipMember {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint32_t crc32 = 0;  // as the archive says; only read_undamaged() compares it
};

// The members of an archive (zip64 included) by name. Throws ConfigError (place: the file) if it is
// not a zip archive, is cut short or damaged, or has a compressed or encrypted member.
std::map<std::string, ZipMember> read_zip(const InputFile& archive);

// The bytes of a member; nullopt if their CRC is wrong.
std::optional<std::string> read_undamaged(const InputFile& archive, const ZipMember& member);

// A tensor's place in a storage. Each storage is a member of the archive.
struct PickledTensor {
  std::string_view storage;  // the member's name in the folder data/; a view into the pickle
  uint64_t storage_items = 0;
  uint64_t first_item = 0;     // in the storage; the last item is below storage_items
  std::string_view dtype;      // as safetensors names it
  std::vector<int64_t> shape;  // the elements are contiguous and row-major
};

// Returns the tensors of the pickle in `bytes` by name. torch.save writes them as a dictionary.
// Calls nothing that the pickle (https://docs.python.org/3/library/pickle.html) names, and knows
// only the few names that tensors need. Throws ConfigError (place: `file`) if the pickle is
// damaged, or holds or asks for anything but tensors. Also throws if its values take far more
// memory than the pickle, or if a tensor is not contiguous.
std::map<std::string, PickledTensor> read_pickled_tensors(const std::filesystem::path& file,
                                                          std::string_view bytes);

}  // namespace fsdp
