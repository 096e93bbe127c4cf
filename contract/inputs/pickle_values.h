#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory_resource>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// The values that a pickle of tensors makes. Text lies within the pickle, others in an arena.
namespace fsdp::pickle {

struct Value;
using Values = std::span<const Value>;

struct Other {};  // None, a boolean, a fraction, a list: nothing of which is read
enum class Callable { kOrderedDict, kRebuildTensor, kRebuildParameter };
struct StorageType {
  const char* dtype;  // as safetensors names it
};
struct Tuple {
  Values items;
};
struct Storage {
  std::string_view name;
  std::string_view dtype;
  uint64_t items;
};
struct Tensor {
  const Storage* storage;
  uint64_t first_item;
  const Tuple* shape;  // of numbers that are not negative
  bool is_contiguous;
};
struct Dictionary;

template <typename T>
inline constexpr bool is_made_in_arena =
    std::is_same_v<T, std::string_view> || std::is_same_v<T, Tuple> || std::is_same_v<T, Storage> ||
    std::is_same_v<T, Tensor>;

// Small and cheap to copy, because a hostile pickle makes millions.
struct Value {
  std::variant<std::monostate, Other, int64_t, Callable, StorageType, const std::string_view*,
               const Tuple*, Dictionary*, const Storage*, const Tensor*>
      value{};

  // Null if the value is of another type.
  template <typename T>
  const T* as() const {
    if constexpr (is_made_in_arena<T>) {
      const auto* made = std::get_if<const T*>(&value);
      return made == nullptr ? nullptr : *made;
    } else {
      return std::get_if<T>(&value);
    }
  }
  Dictionary* dictionary() const {
    auto* const* made = std::get_if<Dictionary*>(&value);
    return made == nullptr ? nullptr : *made;
  }
};
static_assert(sizeof(Value) == 16 && std::is_trivially_copyable_v<Value>);

struct Dictionary {
  explicit Dictionary(std::pmr::memory_resource* arena) : items(arena) {}

  std::pmr::list<std::pair<Value, Value>> items;
};

// The end of an error message: the remedy for a file that is not read.
inline constexpr const char* kSaveAgain =
    "save the model with transformers' save_pretrained, which writes safetensors";

// The storage that a tuple ('storage', type, name, location, items) names; nullopt for others.
std::optional<Storage> storage_of(const Value& id);

// Makes a tensor of the arguments (storage, first item, shape, strides, needs a gradient, hooks,
// ...); nullopt if they have another form. Throws ConfigError (place: `file`) if the tensor exceeds
// its storage.
std::optional<Tensor> rebuild_tensor(const std::filesystem::path& file, Values arguments);

// The sizes in a tensor's shape.
std::vector<int64_t> shape_of(const Tensor& tensor);

}  // namespace fsdp::pickle
