#include "formats/weights/torch_file.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "formats/weights/restricted_unpickler.h"
#include "formats/weights/zip_archive.h"

namespace fsdp {
namespace {

using std::filesystem::path;
using File = std::shared_ptr<const InputFile>;
using Members = std::map<std::string, ZipMember>;

constexpr uint64_t kLongestByteOrder = 16;

// The folder in the archive that contains everything, such as "archive/".
std::string folder_of(const path& file, const Members& members) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const auto& [name, member] : members) {
    if (name.ends_with(kPickle) && name.find('/') == name.size() - kPickle.size()) {
      return name.substr(0, name.find('/') + 1);
    }
  }
  refuse_file(file, "is a zip archive without data.pkl; torch.save did not write it");
}

StoredTensor locate(const File& file, const std::string& name, PickledTensor pickled,
                    const std::string& folder, const Members& members) {
  const std::string member = folder + "data/" + std::string(pickled.storage);
  const auto found = members.find(member);
  const uint64_t size = *item_bytes(pickled.dtype);
  if (found == members.end() || found->second.size_bytes % size != 0 ||
      found->second.size_bytes / size != pickled.storage_items) {
    refuse_file(file->path(),
                "tensor '" + name + "' needs " + std::to_string(pickled.storage_items) +
                    " elements of " + std::to_string(size) + " bytes in '" + member + "', " +
                    (found == members.end()
                         ? "which is missing"
                         : "which has " + std::to_string(found->second.size_bytes) + " bytes") +
                    "; the file is damaged");
  }
  StoredTensor tensor;
  tensor.dtype = std::string(pickled.dtype);
  tensor.shape = std::move(pickled.shape);
  tensor.file = file;
  tensor.offset = found->second.offset + pickled.first_item * size;
  tensor.size_bytes = *tensor_bytes(tensor.shape, size);
  return tensor;
}

void refuse_old_format(const InputFile& file) {
  constexpr std::string_view kBeginOfPickle = "\x80\x02";
  if (file.read_text(0, kBeginOfPickle.size()) != kBeginOfPickle) return;
  refuse_file(file.path(),
              "is in the format that torch.save had before PyTorch 1.6, which is not read; load "
              "it in Python and save it again, best with transformers' save_pretrained, which "
              "writes safetensors");
}

}  // namespace

StoredTensors read_torch(const File& file) {
  refuse_old_format(*file);
  const Members members = read_zip(*file);
  const std::string folder = folder_of(file->path(), members);
  const auto order = members.find(folder + "byteorder");
  if (order != members.end() &&
      file->read_text(order->second.offset,
                      std::min(order->second.size_bytes, kLongestByteOrder)) != "little") {
    refuse_file(file->path(),
                "was written on a machine of the other byte order; save it again on this one");
  }
  const ZipMember& member = members.at(folder + "data.pkl");
  if (member.size_bytes > kLargestPickleBytes) {
    refuse_file(file->path(), "has a data.pkl of " + std::to_string(member.size_bytes) +
                                  " bytes; allowed: at most " +
                                  std::to_string(kLargestPickleBytes));
  }
  const std::optional<std::string> pickle = read_undamaged(*file, member);
  if (!pickle) {
    refuse_file(file->path(),
                "has a data.pkl that is not what was written; copy or download it again");
  }
  StoredTensors tensors;
  auto pickled = read_pickled_tensors(file->path(), *pickle);
  while (!pickled.empty()) {  // of each tensor there is one of the two
    auto next = pickled.extract(pickled.begin());
    StoredTensor tensor = locate(file, next.key(), std::move(next.mapped()), folder, members);
    tensors.emplace_hint(tensors.end(), std::move(next.key()), std::move(tensor));
  }
  return tensors;
}

StoredTensors read_torch_file(const path& file) {
  return read_torch(std::make_shared<const InputFile>(file));
}

}  // namespace fsdp
