#include "contract/inputs/pickle_values.h"

#include <string>
#include <vector>

#include "contract/files/input_file.h"
#include "contract/inputs/stored_tensor.h"

namespace fsdp::pickle {
namespace {

constexpr size_t kMostDimensions = 64;  // of a tensor of PyTorch

// Returns the sizes; nullopt if one is negative or `value` is not a tuple of numbers.
std::optional<std::vector<int64_t>> sizes_of(const Value& value) {
  const auto* tuple = value.as<Tuple>();
  if (tuple == nullptr || tuple->items.size() > kMostDimensions) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Value& item : tuple->items) {
    const auto* size = item.as<int64_t>();
    if (size == nullptr || *size < 0) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

// True if the elements follow each other, those of the last dimension first. No size is 0.
bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  uint64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && static_cast<uint64_t>(strides[i]) != expected) return false;
    expected *= static_cast<uint64_t>(shape[i]);
  }
  return true;
}

}  // namespace

std::optional<Storage> storage_of(const Value& id) {
  const auto* tuple = id.as<Tuple>();
  if (tuple == nullptr || tuple->items.size() != 5) return std::nullopt;
  const auto* kind = tuple->items[0].as<std::string_view>();
  const auto* type = tuple->items[1].as<StorageType>();
  const auto* name = tuple->items[2].as<std::string_view>();
  const auto* items = tuple->items[4].as<int64_t>();
  const bool is_storage = kind != nullptr && *kind == "storage";
  if (!is_storage || type == nullptr || name == nullptr || items == nullptr || *items < 0) {
    return std::nullopt;
  }
  return Storage{*name, type->dtype, static_cast<uint64_t>(*items)};
}

std::optional<Tensor> rebuild_tensor(const std::filesystem::path& file, Values arguments) {
  if (arguments.size() < 6) return std::nullopt;
  const auto* storage = arguments[0].as<Storage>();
  const auto* first = arguments[1].as<int64_t>();
  const auto shape = sizes_of(arguments[2]);
  const auto strides = sizes_of(arguments[3]);
  if (storage == nullptr || first == nullptr || !shape || !strides ||
      shape->size() != strides->size()) {
    return std::nullopt;
  }
  const auto items = tensor_bytes(*shape, 1);
  const auto begin = static_cast<uint64_t>(*first);
  if (*first < 0 || !items || begin > storage->items || *items > storage->items - begin) {
    refuse_file(file, "has a tensor that reaches beyond the " + std::to_string(storage->items) +
                          " elements of its storage '" + std::string(storage->name) +
                          "'; it is damaged");
  }
  return Tensor{.storage = storage,
                .first_item = begin,
                .shape = arguments[2].as<Tuple>(),
                .is_contiguous = *items == 0 || is_contiguous(*shape, *strides)};
}

std::vector<int64_t> shape_of(const Tensor& tensor) {
  std::vector<int64_t> shape;
  shape.reserve(tensor.shape->items.size());
  for (const Value& size : tensor.shape->items) shape.push_back(*size.as<int64_t>());
  return shape;
}

}  // namespace fsdp::pickle
