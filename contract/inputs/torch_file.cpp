#include "contract/inputs/torch_file.h"

#include <string>
#include <string_view>

#include "contract/inputs/restricted_unpickler.h"
#include "contract/inputs/zip_archive.h"

namespace fsdp {
namespace {

using std::filesystem::path;
using Members = std::map<std::string, ZipMember>;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The folder within the archive that has everything, "archive/" for instance.
std::string folder_of(const path& file, const Members& members) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const auto& [name, member] : members) {
    if (name.ends_with(kPickle) && name.find('/') == name.size() - kPickle.size()) {
      return name.substr(0, name.find('/') + 1);
    }
  }
  refuse_file(file, "is a zip archive without data.pkl; torch.save did not write it");
}

StoredTensor locate(const path& file, const std::string& name, const PickledTensor& pickled,
                    const std::string& folder, const Members& members) {
  const std::string member = folder + "data/" + std::string(pickled.storage);
  const auto found = members.find(member);
  const uint64_t size = *item_bytes(pickled.dtype);
  if (found == members.end() || found->second.bytes.size() % size != 0 ||
      found->second.bytes.size() / size != pickled.storage_items) {
    refuse_file(file,
                "tensor '" + name + "' needs " + std::to_string(pickled.storage_items) +
                    " elements of " + std::to_string(size) + " bytes in '" + member + "', " +
                    (found == members.end()
                         ? "which is missing"
                         : "which has " + std::to_string(found->second.bytes.size()) + " bytes") +
                    "; the file is damaged");
  }
  const uint64_t bytes = *tensor_bytes(pickled.shape, size);
  return {.dtype = std::string(pickled.dtype),
          .shape = pickled.shape,
          .bytes = found->second.bytes.subspan(pickled.first_item * size, bytes),
          .file = nullptr};
}

}  // namespace

StoredTensors read_torch_bytes(const path& file, std::span<const std::byte> bytes) {
  constexpr std::string_view kBeginOfPickle = "\x80\x02";
  if (text_of(bytes).starts_with(kBeginOfPickle)) {
    refuse_file(file,
                "is in the format that torch.save had before PyTorch 1.6, which is not read; load "
                "it in Python and save it again, best with transformers' save_pretrained, which "
                "writes safetensors");
  }
  const Members members = read_zip(file, bytes);
  const std::string folder = folder_of(file, members);
  const auto order = members.find(folder + "byteorder");
  if (order != members.end() && text_of(order->second.bytes) != "little") {
    refuse_file(file,
                "was written on a machine of the other byte order; save it again on this one");
  }
  const ZipMember& pickle = members.at(folder + "data.pkl");
  if (!is_undamaged(pickle)) {
    refuse_file(file, "has a data.pkl that is not what was written; copy or download it again");
  }
  StoredTensors tensors;
  for (const auto& [name, pickled] : read_pickled_tensors(file, text_of(pickle.bytes))) {
    tensors.emplace(name, locate(file, name, pickled, folder, members));
  }
  return tensors;
}

StoredTensors read_torch_file(const path& file) {
  const auto mapped = map_input_file(file);
  StoredTensors tensors = read_torch_bytes(file, mapped->bytes());
  for (auto& [name, tensor] : tensors) tensor.file = mapped;
  return tensors;
}

}  // namespace fsdp
