#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "contract/inputs/restricted_unpickler.h"

// What a pickle of tensors makes. Text is within the pickle.
namespace fsdp::pickle {

struct Value;
using Values = std::vector<const Value*>;

struct Other {};  // None, a boolean, a fraction, a list: nothing of which is read
struct Callable {
  std::string_view name;
};
struct StorageType {
  std::string_view dtype;
};
struct Tuple {
  Values items;
};
struct Dictionary {
  std::vector<std::pair<const Value*, const Value*>> items;
};
struct Storage {
  std::string_view name;
  std::string_view dtype;
  uint64_t items;
};
struct Value {
  std::variant<Other, int64_t, std::string_view, Callable, StorageType, Tuple, Dictionary, Storage,
               PickledTensor>
      value;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

// A text that ends an error: what to do with a file that is not read.
inline constexpr const char* kSaveAgain =
    "save the model with transformers' save_pretrained, which writes safetensors";

// What the tuple ('storage', type, name, location, items) names; nullopt when it is none.
std::optional<Storage> storage_of(const Value& id);

// Of the arguments (storage, first item, shape, strides, needs a gradient, hooks, ...); nullopt
// when they are not such. Throws ConfigError (place: `file`) when the tensor is beyond its storage,
// or its elements do not follow each other.
std::optional<PickledTensor> rebuild_tensor(const std::filesystem::path& file,
                                            const Values& arguments);

}  // namespace fsdp::pickle
