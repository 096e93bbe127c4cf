#include "contract/inputs/restricted_unpickler.h"

#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "contract/files/input_file.h"
#include "contract/inputs/pickle_opcodes.h"
#include "contract/inputs/stored_tensor.h"

namespace fsdp {
namespace {

using std::filesystem::path;

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

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

constexpr std::array kStorageTypes{
    std::pair{"torch.FloatStorage", "F32"}, std::pair{"torch.BFloat16Storage", "BF16"},
    std::pair{"torch.HalfStorage", "F16"},  std::pair{"torch.DoubleStorage", "F64"},
    std::pair{"torch.LongStorage", "I64"},  std::pair{"torch.IntStorage", "I32"},
    std::pair{"torch.ShortStorage", "I16"}, std::pair{"torch.CharStorage", "I8"},
    std::pair{"torch.ByteStorage", "U8"},   std::pair{"torch.BoolStorage", "BOOL"}};

constexpr const char* kSaveAgain =
    "save the model with transformers' save_pretrained, which writes safetensors";

constexpr size_t kMostDimensions = 64;  // of a tensor of PyTorch
constexpr size_t kLongestText = 1000;

// Every size at least 0.
std::optional<std::vector<int64_t>> sizes_of(const Value& value) {
  const auto* tuple = value.as<Tuple>();
  if (tuple == nullptr || tuple->items.size() > kMostDimensions) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Value* item : tuple->items) {
    const auto* size = item->as<int64_t>();
    if (size == nullptr || *size < 0) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::string describe(const Storage& storage) {
  return "has a tensor in storage '" + std::string(storage.name) + "' ";
}

// Whether the elements, of which there are some, follow each other, the last dimension's first.
bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  uint64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && static_cast<uint64_t>(strides[i]) != expected) return false;
    expected *= static_cast<uint64_t>(shape[i]);
  }
  return true;
}

// The machine that a pickle is a program of: a stack of values, marks in it, and a memo.
class Unpickler {
 public:
  Unpickler(path file, std::string_view pickle) : file_(std::move(file)), pickle_(pickle) {}

  // What the pickle makes.
  const Value& run() {
    while (true) {
      const auto opcode = static_cast<Opcode>(take<uint8_t>());
      if (opcode == Opcode::kStop) return *pop();
      step(opcode);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const { refuse_file(file_, problem); }
  [[noreturn]] void refuse_damaged() const {
    refuse("has a data.pkl that is damaged at byte " + std::to_string(position_));
  }

  std::string_view take_bytes(uint64_t count) {
    if (count > pickle_.size() - position_) refuse_damaged();
    position_ += count;
    return pickle_.substr(position_ - count, count);
  }
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take_line() {
    const size_t end = pickle_.find('\n', position_);
    if (end == std::string_view::npos) refuse_damaged();
    const std::string_view line = take_bytes(end - position_);
    ++position_;
    return line;
  }

  template <typename T>
  void push(T value) {
    values_.push_back({std::move(value)});
    stack_.push_back(&values_.back());
  }
  Value* pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) refuse_damaged();
    Value* const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Value* top() {
    Value* const value = pop();
    stack_.push_back(value);
    return value;
  }
  // The last `count` values, taken off.
  Values pop_last(size_t count) {
    Values values(count);
    for (size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }
  // What was pushed since the last mark, which is taken off too.
  Values pop_to_mark() {
    if (marks_.empty()) refuse_damaged();
    Values values = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }

  void step(Opcode opcode);
  void remember(uint32_t key) { memo_[key] = top(); }
  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse_damaged();
    stack_.push_back(found->second);
  }
  void take_text();
  void take_long();
  void take_global();
  void set_items(const Values& items);
  void build();
  void reduce();
  void take_storage();
  PickledTensor rebuild_tensor(const Values& arguments) const;

  path file_;
  std::string_view pickle_;
  size_t position_ = 0;
  std::deque<Value> values_;  // all there are; a dictionary may hold itself
  Value other_{Other{}};
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, Value*> memo_;
};

void Unpickler::step(Opcode opcode) {
  switch (opcode) {
    case Opcode::kStop:
      return;
    case Opcode::kProtocol:
      if (const int protocol = take<uint8_t>(); protocol != 2) {
        refuse("holds a pickle of protocol " + std::to_string(protocol) +
               "; allowed: 2, which torch.save writes; else " + kSaveAgain);
      }
      return;
    case Opcode::kMark:
      return marks_.push_back(stack_.size());
    case Opcode::kPut:
      return remember(take<uint8_t>());
    case Opcode::kLongPut:
      return remember(take<uint32_t>());
    case Opcode::kGet:
      return recall(take<uint8_t>());
    case Opcode::kLongGet:
      return recall(take<uint32_t>());
    case Opcode::kGlobal:
      return take_global();
    case Opcode::kReduce:
      return reduce();
    case Opcode::kBuild:
      return build();
    case Opcode::kPersistentId:
      return take_storage();
    case Opcode::kInt:
      return push<int64_t>(take<int32_t>());
    case Opcode::kInt1:
      return push<int64_t>(take<uint8_t>());
    case Opcode::kInt2:
      return push<int64_t>(take<uint16_t>());
    case Opcode::kLong1:
      return take_long();
    case Opcode::kText:
      return take_text();
    case Opcode::kEmptyTuple:
      return push(Tuple{});
    case Opcode::kTuple1:
      return push(Tuple{pop_last(1)});
    case Opcode::kTuple2:
      return push(Tuple{pop_last(2)});
    case Opcode::kTuple3:
      return push(Tuple{pop_last(3)});
    case Opcode::kTuple:
      return push(Tuple{pop_to_mark()});
    case Opcode::kEmptyDictionary:
      return push(Dictionary{});
    case Opcode::kSetItem:
      return set_items(pop_last(2));
    case Opcode::kSetItems:
      return set_items(pop_to_mark());
    case Opcode::kFloat:
      take<double>();
      [[fallthrough]];
    case Opcode::kNone:
    case Opcode::kTrue:
    case Opcode::kFalse:
    case Opcode::kEmptyList:
      return stack_.push_back(&other_);
    case Opcode::kAppend:
      pop();
      if (top() != &other_) refuse_damaged();
      return;
    case Opcode::kAppends:
      pop_to_mark();
      if (top() != &other_) refuse_damaged();
      return;
  }
  refuse("has a data.pkl with opcode " + std::to_string(static_cast<int>(opcode)) + " at byte " +
         std::to_string(position_ - 1) + ", which no file of tensors has; it is damaged, or " +
         kSaveAgain);
}

void Unpickler::take_text() {
  const auto size = take<uint32_t>();
  if (size > kLongestText) refuse_damaged();
  push(take_bytes(size));
}

void Unpickler::take_long() {
  const std::string_view bytes = take_bytes(take<uint8_t>());
  if (bytes.size() > sizeof(int64_t)) refuse_damaged();
  const bool is_negative = !bytes.empty() && static_cast<int8_t>(bytes.back()) < 0;
  int64_t value = is_negative ? -1 : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  push(value);
}

void Unpickler::take_global() {
  const std::string_view module = take_line();
  const std::string_view name = take_line();
  const std::string full = std::string(module) + '.' + std::string(name);
  for (const std::string_view known : {kOrderedDict, kRebuildTensor, kRebuildParameter}) {
    if (full == known) return push(Callable{known});
  }
  for (const auto& [storage, dtype] : kStorageTypes) {
    if (full == storage) return push(StorageType{dtype});
  }
  refuse("asks for '" + full +
         "' when it is loaded, which may run any code; only tensors are read, and nothing is "
         "called. If you trust the file, load it in Python and " +
         kSaveAgain);
}

void Unpickler::set_items(const Values& items) {
  auto* dictionary = std::get_if<Dictionary>(&top()->value);
  if (dictionary == nullptr || items.size() % 2 != 0) refuse_damaged();
  for (size_t i = 0; i < items.size(); i += 2) {
    dictionary->items.emplace_back(items[i], items[i + 1]);
  }
}

// Attributes, of which an OrderedDict of transformers has _metadata.
void Unpickler::build() {
  pop();
  if (top()->as<Dictionary>() == nullptr) refuse_damaged();
}

void Unpickler::reduce() {
  const auto* arguments = pop()->as<Tuple>();
  const auto* callable = pop()->as<Callable>();
  if (arguments == nullptr || callable == nullptr) refuse_damaged();
  const Values& items = arguments->items;
  if (callable->name == kRebuildTensor) return push(rebuild_tensor(items));
  if (callable->name == kOrderedDict && items.empty()) return push(Dictionary{});
  if (callable->name != kRebuildParameter || items.empty()) refuse_damaged();
  const auto* tensor = items[0]->as<PickledTensor>();
  if (tensor == nullptr) refuse_damaged();
  push(*tensor);
}

// ('storage', type, name, location, items).
void Unpickler::take_storage() {
  const auto* id = pop()->as<Tuple>();
  if (id == nullptr || id->items.size() != 5) refuse_damaged();
  const auto* kind = id->items[0]->as<std::string_view>();
  const auto* type = id->items[1]->as<StorageType>();
  const auto* name = id->items[2]->as<std::string_view>();
  const auto* items = id->items[4]->as<int64_t>();
  const bool is_storage = kind != nullptr && *kind == "storage";
  if (!is_storage || type == nullptr || name == nullptr || items == nullptr || *items < 0) {
    refuse_damaged();
  }
  push(Storage{*name, type->dtype, static_cast<uint64_t>(*items)});
}

// (storage, first item, shape, strides, needs a gradient, hooks).
PickledTensor Unpickler::rebuild_tensor(const Values& arguments) const {
  if (arguments.size() < 6) refuse_damaged();
  const auto* storage = arguments[0]->as<Storage>();
  const auto* first = arguments[1]->as<int64_t>();
  const auto shape = sizes_of(*arguments[2]);
  const auto strides = sizes_of(*arguments[3]);
  if (storage == nullptr || first == nullptr || !shape || !strides ||
      shape->size() != strides->size()) {
    refuse_damaged();
  }
  const auto items = tensor_bytes(*shape, 1);
  const auto begin = static_cast<uint64_t>(*first);
  if (*first < 0 || !items || begin > storage->items || *items > storage->items - begin) {
    refuse(describe(*storage) + "that reaches beyond its " + std::to_string(storage->items) +
           " elements; it is damaged");
  }
  if (*items > 0 && !is_contiguous(*shape, *strides)) {
    refuse(describe(*storage) +
           "whose elements do not follow each other (a transposed one, or a slice); " +
           "call contiguous() on every tensor and save them again, or " + kSaveAgain);
  }
  return {.storage = storage->name,
          .storage_items = storage->items,
          .first_item = begin,
          .dtype = storage->dtype,
          .shape = *shape};
}

}  // namespace

std::map<std::string, PickledTensor> read_pickled_tensors(const path& file,
                                                          std::string_view pickle) {
  if (pickle.size() > kLargestPickleBytes) {
    refuse_file(file, "has a data.pkl of " + std::to_string(pickle.size()) +
                          " bytes; allowed: at most " + std::to_string(kLargestPickleBytes));
  }
  Unpickler unpickler(file, pickle);
  const auto* dictionary = unpickler.run().as<Dictionary>();
  if (dictionary == nullptr) {
    refuse_file(file, std::string("holds no dictionary of tensors by name; ") + kSaveAgain);
  }
  std::map<std::string, PickledTensor> tensors;
  for (const auto& [key, value] : dictionary->items) {
    const auto* name = key->as<std::string_view>();
    if (name == nullptr) refuse_file(file, "holds something whose name is not text");
    const auto* tensor = value->as<PickledTensor>();
    if (tensor == nullptr) {
      const bool is_nested = value->as<Dictionary>() != nullptr;
      refuse_file(file, "holds '" + std::string(*name) + "', which is " +
                            (is_nested ? "a dictionary: it is a training checkpoint, not a model's "
                                         "weights"
                                       : "no tensor") +
                            "; " + kSaveAgain);
    }
    tensors.insert_or_assign(std::string(*name), *tensor);
  }
  return tensors;
}

}  // namespace fsdp
