#pragma once

#include <filesystem>
#include <memory>

#include "contract/inputs/stored_tensor.h"

// Files of tensors that torch.save wrote (pytorch_model.bin), without libtorch and without Python:
// a zip archive of a pickle, data.pkl, and of the bytes of each storage.
namespace fsdp {

// The tensors of one file; nothing in it is called. Throws ConfigError (place: the file) when it is
// missing, cut short, damaged, of the format before PyTorch 1.6, or holds anything but tensors by
// name.
StoredTensors read_torch_file(const std::filesystem::path& file);
StoredTensors read_torch(const std::shared_ptr<const InputFile>& file);

}  // namespace fsdp
