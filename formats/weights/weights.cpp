// Finds the weights of a folder in any format, and compares their names and shapes with the model.
#include "formats/weights/weights.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/files/file_digest.h"
#include "contract/families/adapters.h"
#include "contract/families/family.h"
#include "formats/weights/bitsandbytes.h"
#include "formats/weights/safetensors.h"
#include "formats/weights/torch_file.h"

namespace fsdp {
namespace {

using nlohmann::json;
using std::filesystem::path;

struct Format {
  WeightsOf of;
  std::string file;
  StoredTensors (*read)(const std::shared_ptr<const InputFile>& file);

  std::string index() const { return file + ".index.json"; }
  StoredTensors read_file(const path& place) const {
    return read(std::make_shared<const InputFile>(place));
  }
};

StoredTensors tensors_of_safetensors(const std::shared_ptr<const InputFile>& file) {
  return read_safetensors(file).tensors;
}

// The first format that a folder has is read.
const std::array kFormats{
    Format{WeightsOf::kModel, "model.safetensors", tensors_of_safetensors},
    Format{WeightsOf::kModel, "pytorch_model.bin", read_torch},
    Format{WeightsOf::kAdapter, "adapter_model.safetensors", tensors_of_safetensors},
    Format{WeightsOf::kAdapter, "adapter_model.bin", read_torch}};

// The weights of a folder: one file, or an index of several.
struct Found {
  const Format& format;
  path file;
  bool is_index;
};

Found find_weights(const path& folder, WeightsOf of) {
  for (const Format& format : kFormats) {
    if (format.of != of) continue;
    if (input_exists(folder / format.file)) return {format, folder / format.file, false};
    if (input_exists(folder / format.index())) return {format, folder / format.index(), true};
  }
  if (of == WeightsOf::kAdapter) {
    refuse_file(folder,
                "holds neither adapter_model.safetensors nor adapter_model.bin; write the adapters "
                "with PEFT's save_pretrained");
  }
  refuse_file(
      folder,
      "holds neither model.safetensors nor pytorch_model.bin, nor the index of one's shards "
      "(model.safetensors.index.json, pytorch_model.bin.index.json); write the model with "
      "transformers' save_pretrained");
}

// Maps each tensor's name to its shard's file name.
std::map<std::string, std::string> read_index(const path& index) {
  constexpr size_t kLargestIndexBytes = 100'000'000;
  const json object =
      parse_json_object(index, read_input_file(index, kLargestIndexBytes), kLargestIndexBytes);
  const auto weight_map = object.find("weight_map");
  if (weight_map == object.end() || !weight_map->is_object()) {
    refuse_file(index, "has no 'weight_map' of tensor names to files");
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, value] : weight_map->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || shard.find('/') != std::string::npos) {
      refuse_file(index, "tensor '" + name + "' has the shard " + value.dump() +
                             "; allowed: the name of a file in the same folder");
    }
    shard_of.emplace(name, shard);
  }
  return shard_of;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + ']';
}

constexpr const char* kHead = "lm_head.weight";

// Returns the name of the embedding's tensor.
std::string embedding_of(const ModelConfig& config) {
  const ModuleSpec first = family_of(config).modules(config).front().module(0);
  return first.parameters.front().tensors.front().name;
}

bool has_same_bytes(const StoredTensor& a, const StoredTensor& b) {
  std::vector<std::byte> block_of_a(InputFile::kBlockBytes), block_of_b(InputFile::kBlockBytes);
  for (uint64_t done = 0; done < a.size_bytes; done += InputFile::kBlockBytes) {
    const uint64_t count = std::min<uint64_t>(InputFile::kBlockBytes, a.size_bytes - done);
    a.read(done, std::span(block_of_a).first(count));
    b.read(done, std::span(block_of_b).first(count));
    if (!std::ranges::equal(std::span(block_of_a).first(count),
                            std::span(block_of_b).first(count))) {
      return false;
    }
  }
  return true;
}

// The place of a tensor in a file of this state. Equal places hold equal bytes.
using StoredPlace = std::pair<FileState, uint64_t>;

StoredPlace place_of(const StoredTensor& tensor) {
  return {state_of(tensor.file->path(), tensor.file->descriptor()), tensor.offset};
}

// Compares each pair of places only once, because that may read gigabytes.
bool is_copy(const StoredTensor& a, const StoredTensor& b) {
  static std::mutex mutex;
  static std::vector<std::pair<std::pair<StoredPlace, StoredPlace>, bool>> known;
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const std::pair places{place_of(a), place_of(b)};
  if (places.first == places.second) return true;
  const std::lock_guard lock(mutex);
  for (const auto& [compared, are_same] : known) {
    if (compared == places) return are_same;
  }
  return known.emplace_back(places, has_same_bytes(a, b)).second;
}

}  // namespace

std::vector<path> weight_files(const path& folder, WeightsOf of) {
  const Found found = find_weights(folder, of);
  std::vector<path> files{found.file};
  if (!found.is_index) return files;
  std::set<path> shards;
  for (const auto& [name, shard] : read_index(found.file)) shards.insert(folder / shard);
  files.insert(files.end(), shards.begin(), shards.end());
  return files;
}

StoredTensors read_weights(const path& folder, WeightsOf of) {
  const auto [format, file, is_index] = find_weights(folder, of);
  if (!is_index) return format.read_file(file);
  std::map<std::string, StoredTensors> shards;
  StoredTensors tensors;
  for (const auto& [name, shard] : read_index(file)) {
    auto read = shards.find(shard);
    if (read == shards.end()) read = shards.emplace(shard, format.read_file(folder / shard)).first;
    const auto found = read->second.find(name);
    if (found == read->second.end()) {
      refuse_file(file, "names tensor '" + name + "' in " + shard + ", which does not hold it");
    }
    tensors.emplace(name, found->second);
  }
  return tensors;
}

ModelConfig with_stored_head(const path& folder, ModelConfig config) {
  if (!config.tie_word_embeddings) return config;
  const StoredTensors stored = read_weights(folder);
  const auto head = stored.find(kHead);
  const auto embedding = stored.find(embedding_of(config));
  if (head == stored.end() || embedding == stored.end()) return config;
  config.tie_word_embeddings = is_copy(head->second, embedding->second);
  return config;
}

void refuse_tensor(const path& folder, const std::string& name, const std::string& problem) {
  refuse_file(folder, "tensor '" + name + "' " + problem);
}

void check_tensor(const path& folder, const StoredTensors& stored, const NamedTensor& tensor,
                  const std::string& asker) {
  const auto found = stored.find(tensor.name);
  if (found == stored.end()) {
    refuse_tensor(folder, tensor.name,
                  "is missing; " + asker + " asks for it with shape " + shape_text(tensor.shape));
  }
  const auto& [dtype, shape, file, offset, size_bytes] = found->second;
  if (shape != tensor.shape) {
    refuse_tensor(folder, tensor.name,
                  "has shape " + shape_text(shape) + ", but " + asker + " asks for " +
                      shape_text(tensor.shape));
  }
  if (dtype != "F32" && dtype != "BF16" && dtype != "F16") {
    refuse_tensor(folder, tensor.name, "has dtype " + dtype + "; allowed: F32, BF16, F16");
  }
}

namespace {

// True if `name` is a part of a weight that bitsandbytes stored, such as <weight>.absmax.
bool is_part_of_quantized(const std::string& name, const std::set<std::string>& quantized) {
  auto weight = quantized.upper_bound(name);
  return weight != quantized.begin() && name.starts_with(*--weight + '.');
}

}  // namespace

void check_weights(const path& folder, const ModelConfig& config, Method method) {
  const auto refuse = [&](const std::string& name, const std::string& problem) {
    refuse_tensor(folder, name, problem);
  };
  const StoredTensors stored = read_weights(folder);
  std::set<std::string> expected;
  std::set<std::string> quantized;
  for_each_module(config, method, LoraSpec(), [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      if (parameter.role == ParameterRole::kAdapter) continue;
      for (const NamedTensor& tensor : parameter.tensors) {
        expected.insert(tensor.name);
        if (!find_nf4(folder, stored, tensor)) {
          check_tensor(folder, stored, tensor, "config.json");
          continue;
        }
        quantized.insert(tensor.name);
        if (parameter.is_quantized) continue;
        refuse(tensor.name,
               "is quantized to NF4; method: qlora trains with such weights in blocks, no other "
               "method does");
      }
    }
  });
  const ModelFamily& family = family_of(config);
  const std::string embedding = embedding_of(config);
  for (const auto& [name, tensor] : stored) {
    if (expected.contains(name) || family.may_be_left(name)) continue;
    if (is_part_of_quantized(name, quantized)) continue;
    // A tied head equals the embedding. Otherwise with_stored_head() would have untied it.
    if (name == kHead && config.tie_word_embeddings) continue;
    if (std::ranges::find(family.embedding_copies, name) == family.embedding_copies.end()) {
      refuse(name, "is not part of the architecture in config.json");
    }
    if (!is_copy(tensor, stored.at(embedding))) {
      refuse(name,
             "differs from '" + embedding + "', and an embedding of its own is not supported");
    }
  }
}

}  // namespace fsdp
