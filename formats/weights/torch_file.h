#pragma once

#include <filesystem>
#include <memory>

#include "formats/weights/safetensors.h"

// Reads files of tensors that torch.save wrote (pytorch_model.bin), without libtorch and Python.
// Such a file is a zip archive of a pickle, data.pkl, and of the bytes of each storage.
namespace fsdp {

// The tensors of one file, by name. Nothing in it is called. Throws ConfigError (place: the file)
// if the file is missing, cut short, damaged or older than PyTorch 1.6's format. Also throws if it
// holds anything but named tensors.
StoredTensors read_torch_file(const std::filesystem::path& file);
StoredTensors read_torch(const std::shared_ptr<const InputFile>& file);

}  // namespace fsdp
