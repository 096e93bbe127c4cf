#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/input_fixtures.h"

// Files as torch.save writes them, right and wrong ones.
namespace fsdp {

using ZipFiles = std::vector<std::pair<std::string, std::string>>;  // names and bytes

// Changes to the entries of all members of a zip archive, which make the archive wrong.
struct ZipLies {
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t more_bytes = 0;
  uint32_t more_offset = 0;
  uint32_t other_crc32 = 0;
};

inline std::string zip_bytes(const ZipFiles& files, const ZipLies& lies = {}) {
  const auto two = [](uint64_t value) { return bytes_of<uint16_t>({uint16_t(value)}); };
  const auto four = [](uint64_t value) { return bytes_of<uint32_t>({uint32_t(value)}); };
  std::string archive;
  std::string directory;
  for (const auto& [name, data] : files) {
    const auto* begin = reinterpret_cast<const Bytef*>(data.data());
    const uint32_t crc = crc32(0, begin, uInt(data.size())) + lies.other_crc32;
    const uint32_t size = uint32_t(data.size()) + lies.more_bytes;
    const std::string about = two(lies.flags) + two(lies.method) + four(0) + four(crc) +
                              four(size) + four(size) + two(name.size()) + two(0);
    directory += "PK\x01\x02" + two(0) + two(0) + about + two(0) + two(0) + two(0) + four(0) +
                 four(archive.size() + lies.more_offset) + name;
    archive += "PK\x03\x04" + two(0) + about + name + data;
  }
  const std::string end = "PK\x05\x06" + two(0) + two(0) + two(files.size()) + two(files.size()) +
                          four(directory.size()) + four(archive.size()) + two(0);
  return archive + directory + end;
}

// Parts of pickles.
inline std::string pickled_text(const std::string& text) {
  return "X" + bytes_of<uint32_t>({uint32_t(text.size())}) + text;
}
inline std::string pickled_int(int32_t value) { return "J" + bytes_of<int32_t>({value}); }
inline std::string pickled_tuple(const std::vector<int32_t>& values) {
  std::string tuple = "(";
  for (const int32_t value : values) tuple += pickled_int(value);
  return tuple + "t";
}
inline std::string pickled_global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

struct TensorPickle {
  std::vector<int32_t> shape{2};
  std::vector<int32_t> strides{1};
  std::string storage = "0";
  std::string type = "FloatStorage";
  int32_t storage_items = 2;
  int32_t first_item = 0;
};
inline std::string pickled_tensor(const TensorPickle& tensor) {
  return pickled_global("torch._utils", "_rebuild_tensor_v2") + "((" + pickled_text("storage") +
         pickled_global("torch", tensor.type) + pickled_text(tensor.storage) + pickled_text("cpu") +
         pickled_int(tensor.storage_items) + "tQ" + pickled_int(tensor.first_item) +
         pickled_tuple(tensor.shape) + pickled_tuple(tensor.strides) + "\x89" +
         pickled_global("collections", "OrderedDict") + ")RtR";
}
// The pickle of {"a": value}.
inline std::string pickle_of(const std::string& value) {
  return "\x80\x02}" + pickled_text("a") + value + "s.";
}

// The file that torch.save writes for this pickle and these storages.
inline std::string torch_bytes(const std::string& pickle, const ZipFiles& storages,
                               const std::string& byte_order = "little") {
  ZipFiles files{{"archive/data.pkl", pickle}, {"archive/byteorder", byte_order}};
  for (const auto& [name, data] : storages) files.emplace_back("archive/data/" + name, data);
  files.emplace_back("archive/version", "3\n");
  return zip_bytes(files);
}

}  // namespace fsdp
