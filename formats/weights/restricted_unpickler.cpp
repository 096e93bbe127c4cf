// Unpickles tensors and refuses every other name. Nothing is executed, and memory is bounded.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "formats/weights/torch_file.h"

namespace fsdp {
namespace {

// The remedy for a file that is not read.
const std::string kSaveAgain =
    "save the model with transformers' save_pretrained, which writes safetensors";

constexpr size_t kMostDimensions = 64;  // of a tensor of PyTorch
constexpr size_t kLongestText = 1000;
constexpr size_t kDeepestStack = 1 << 16;
// A pickle's values may take kMostBytesOfByte times its bytes, and kMoreBytes. The most measured
// was 11 times the bytes: 80,000 tensors of one number each, in one storage.
constexpr size_t kMostBytesOfByte = 12;
constexpr size_t kMoreBytes = 12 << 20;
constexpr size_t kBytesOfTensor = 160;  // an entry of the map, without its name and sizes

// A name that a pickle may ask for.
struct Global {
  enum Meaning { kOrderedDict, kTensor, kParameter, kStorage };
  std::string_view name;
  Meaning meaning;
  std::string_view dtype{};  // of kStorage, as safetensors names it
};
constexpr std::array kGlobals{Global{"collections.OrderedDict", Global::kOrderedDict},
                              Global{"torch._utils._rebuild_tensor_v2", Global::kTensor},
                              Global{"torch._utils._rebuild_parameter", Global::kParameter},
                              Global{"torch.FloatStorage", Global::kStorage, "F32"},
                              Global{"torch.BFloat16Storage", Global::kStorage, "BF16"},
                              Global{"torch.HalfStorage", Global::kStorage, "F16"},
                              Global{"torch.DoubleStorage", Global::kStorage, "F64"},
                              Global{"torch.LongStorage", Global::kStorage, "I64"},
                              Global{"torch.IntStorage", Global::kStorage, "I32"},
                              Global{"torch.ShortStorage", Global::kStorage, "I16"},
                              Global{"torch.CharStorage", Global::kStorage, "I8"},
                              Global{"torch.ByteStorage", Global::kStorage, "U8"},
                              Global{"torch.BoolStorage", Global::kStorage, "BOOL"}};

// A value of the pickle. Small and cheap to copy, because a hostile pickle makes millions.
struct Other {};  // None, a boolean, a float or a list; its contents are not kept
struct Dictionary;
struct Tuple;
struct Storage;
struct MadeTensor;
using Value = std::variant<std::monostate, Other, int64_t, const std::string_view*, const Global*,
                           const Tuple*, Dictionary*, const Storage*, const MadeTensor*>;

struct Dictionary {
  std::vector<std::pair<Value, Value>> items{};
};
struct Tuple {
  std::vector<Value> items{};
};
struct Storage {
  std::string_view name, dtype;
  uint64_t items;
};
struct MadeTensor {
  PickledTensor place;
  bool is_contiguous;
};

// Null if the value is of another type.
template <typename T>
T* as(const Value& value) {
  T* const* found = std::get_if<T*>(&value);
  return found == nullptr ? nullptr : *found;
}

// Returns the sizes; nullopt if one is negative or `value` is not a tuple of numbers.
std::optional<std::vector<int64_t>> sizes_of(const Value& value) {
  const auto* tuple = as<const Tuple>(value);
  if (tuple == nullptr || tuple->items.size() > kMostDimensions) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Value& item : tuple->items) {
    const auto* size = std::get_if<int64_t>(&item);
    if (size == nullptr || *size < 0) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

// True if the elements follow each other without gaps, row-major. No size in `shape` may be 0.
bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  uint64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && static_cast<uint64_t>(strides[i]) != expected) return false;
    expected *= static_cast<uint64_t>(shape[i]);
  }
  return true;
}

// The machine that runs a pickle's program: a stack of values, marks in it, and a memo.
class Unpickler {
 public:
  Unpickler(const std::filesystem::path& file, std::string_view pickle)
      : file_(file), pickle_(pickle), left_bytes_(pickle.size() * kMostBytesOfByte + kMoreBytes) {}

  // Runs the program. Its value must be a dictionary of tensors.
  std::map<std::string, PickledTensor> run();

 private:
  [[noreturn]] void refuse(const std::string& problem) const { refuse_file(file_, problem); }
  [[noreturn]] void refuse_damaged() const {
    refuse("has a data.pkl that is damaged at byte " + std::to_string(position_));
  }

  // Counts memory that a value takes.
  void charge(size_t bytes) {
    if (bytes > left_bytes_) {
      refuse(
          "has a data.pkl with far more values than the tensors in a file of its size need; it is "
          "damaged, or " +
          kSaveAgain);
    }
    left_bytes_ -= bytes;
  }
  template <typename T>
  T* make(std::deque<T>& all, T made) {
    charge(sizeof(T));
    return &all.emplace_back(std::move(made));
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

  void push(Value value) {
    if (stack_.size() == kDeepestStack) refuse_damaged();
    stack_.push_back(value);
  }
  // Returns the last `count` values, all above the last mark. They stay on the stack.
  std::span<const Value> last(size_t count) const {
    if (height() < count) refuse_damaged();
    return std::span(stack_).last(count);
  }
  // The number of values above the last mark.
  size_t height() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  const Value& top() const { return last(1).front(); }
  void drop(size_t count) { stack_.resize(stack_.size() - last(count).size()); }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  // Removes the last mark. Returns the number of values above it.
  size_t take_mark() {
    if (marks_.empty()) refuse_damaged();
    const size_t count = height();
    marks_.pop_back();
    return count;
  }

  void step(char opcode);
  void remember(uint32_t key);
  void recall(uint32_t key);
  void push_text();
  void push_long();
  void push_global();
  void push_tuple(size_t count);
  void push_dictionary() {
    charge(sizeof(Value));  // for the memory that its items may get
    push(make(dictionaries_, {}));
  }
  void push_storage();
  void push_tensor(std::span<const Value> arguments);
  void set_items(size_t count);
  void append(size_t count);
  void build();
  void reduce();
  PickledTensor named_tensor(std::string_view name, const Value& value) const;

  const std::filesystem::path& file_;
  std::string_view pickle_;
  size_t position_ = 0;
  size_t left_bytes_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  std::deque<Value> memo_;  // by key; Python numbers the keys from 0
  std::deque<std::string_view> texts_;
  std::deque<Tuple> tuples_;
  std::deque<Dictionary> dictionaries_;
  std::deque<Storage> storages_;
  std::deque<MadeTensor> tensors_;
};

// The opcodes of a pickle of tensors, protocol 2, with their names in Python's Lib/pickletools.py.
void Unpickler::step(char opcode) {
  switch (opcode) {
    case '\x80':  // PROTO
      if (const int protocol = take<uint8_t>(); protocol != 2) {
        refuse("holds a pickle of protocol " + std::to_string(protocol) +
               "; allowed: 2, which torch.save writes; else " + kSaveAgain);
      }
      return;
    case '(':  // MARK
      if (marks_.size() == kDeepestStack) refuse_damaged();
      return marks_.push_back(stack_.size());
    case 'q':  // BINPUT
      return remember(take<uint8_t>());
    case 'r':  // LONG_BINPUT
      return remember(take<uint32_t>());
    case 'h':  // BINGET
      return recall(take<uint8_t>());
    case 'j':  // LONG_BINGET
      return recall(take<uint32_t>());
    case 'c':  // GLOBAL
      return push_global();
    case 'R':  // REDUCE
      return reduce();
    case 'b':  // BUILD
      return build();
    case 'Q':  // BINPERSID
      return push_storage();
    case 'J':  // BININT
      return push(int64_t{take<int32_t>()});
    case 'K':  // BININT1
      return push(int64_t{take<uint8_t>()});
    case 'M':  // BININT2
      return push(int64_t{take<uint16_t>()});
    case '\x8a':  // LONG1
      return push_long();
    case 'X':  // BINUNICODE
      return push_text();
    case ')':  // EMPTY_TUPLE
      return push_tuple(0);
    case '\x85':  // TUPLE1
      return push_tuple(1);
    case '\x86':  // TUPLE2
      return push_tuple(2);
    case '\x87':  // TUPLE3
      return push_tuple(3);
    case 't':  // TUPLE
      return push_tuple(take_mark());
    case '}':  // EMPTY_DICT
      return push_dictionary();
    case 's':  // SETITEM
      return set_items(2);
    case 'u':  // SETITEMS
      return set_items(take_mark());
    case 'G':  // BINFLOAT
      take<double>();
      [[fallthrough]];
    case 'N':     // NONE
    case '\x88':  // NEWTRUE
    case '\x89':  // NEWFALSE
    case ']':     // EMPTY_LIST
      return push(Other());
    case 'a':  // APPEND
      return append(1);
    case 'e':  // APPENDS
      return append(take_mark());
    default:
      refuse("has a data.pkl with opcode " + std::to_string(static_cast<uint8_t>(opcode)) +
             " at byte " + std::to_string(position_ - 1) +
             ", which no file of tensors has; it is damaged, or " + kSaveAgain);
  }
}

void Unpickler::remember(uint32_t key) {
  if (key >= memo_.size()) {
    const size_t size = size_t{key} + 1;
    charge((size - memo_.size()) * sizeof(Value));
    memo_.resize(size);
  }
  memo_[key] = top();
}

void Unpickler::recall(uint32_t key) {
  if (key >= memo_.size() || std::holds_alternative<std::monostate>(memo_[key])) refuse_damaged();
  push(memo_[key]);
}

void Unpickler::push_text() {
  const auto size = take<uint32_t>();
  if (size > kLongestText) refuse_damaged();
  push(make(texts_, take_bytes(size)));
}

void Unpickler::push_long() {
  const std::string_view bytes = take_bytes(take<uint8_t>());
  if (bytes.size() > sizeof(int64_t)) refuse_damaged();
  const bool is_negative = !bytes.empty() && static_cast<int8_t>(bytes.back()) < 0;
  int64_t value = is_negative ? -1 : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  push(value);
}

void Unpickler::push_global() {
  const std::string_view module = take_line();
  const std::string_view name = take_line();
  const std::string full = std::string(module) + '.' + std::string(name);
  const auto* known = std::ranges::find(kGlobals, full, &Global::name);
  if (known != kGlobals.end()) return push(known);
  refuse("asks for '" + full +
         "' when it is loaded, which may run any code; only tensors are read, and nothing is "
         "called. If you trust the file, load it in Python and " +
         kSaveAgain);
}

void Unpickler::push_tuple(size_t count) {
  static constexpr Tuple kEmpty;
  if (count == 0) return push(&kEmpty);
  const auto items = last(count);
  charge(items.size_bytes());
  const Tuple* tuple = make(tuples_, {{items.begin(), items.end()}});
  drop(count);
  push(tuple);
}

// Pushes the storage that a tuple ('storage', type, name, location, items) names.
void Unpickler::push_storage() {
  const Value value = pop();
  const auto* id = as<const Tuple>(value);
  if (id == nullptr || id->items.size() != 5) refuse_damaged();
  const auto* kind = as<const std::string_view>(id->items[0]);
  const auto* type = as<const Global>(id->items[1]);
  const auto* name = as<const std::string_view>(id->items[2]);
  const auto* items = std::get_if<int64_t>(&id->items[4]);
  const bool is_storage =
      kind != nullptr && *kind == "storage" && type != nullptr && type->meaning == Global::kStorage;
  if (!is_storage || name == nullptr || items == nullptr || *items < 0) refuse_damaged();
  const Storage* storage = make(storages_, {*name, type->dtype, static_cast<uint64_t>(*items)});
  push(storage);
}

// The arguments are: storage, first item, shape, strides, needs a gradient, hooks, ...
void Unpickler::push_tensor(std::span<const Value> arguments) {
  if (arguments.size() < 6) refuse_damaged();
  const auto* storage = as<const Storage>(arguments[0]);
  const auto* first = std::get_if<int64_t>(&arguments[1]);
  auto shape = sizes_of(arguments[2]);
  const auto strides = sizes_of(arguments[3]);
  if (storage == nullptr || first == nullptr || !shape || !strides ||
      shape->size() != strides->size()) {
    refuse_damaged();
  }
  const auto items = tensor_bytes(*shape, 1);
  const auto begin = static_cast<uint64_t>(*first);
  if (*first < 0 || !items || begin > storage->items || *items > storage->items - begin) {
    refuse("has a tensor that reaches beyond the " + std::to_string(storage->items) +
           " elements of its storage '" + std::string(storage->name) + "'; it is damaged");
  }
  charge(shape->size() * sizeof(int64_t));
  const bool is_whole = *items == 0 || is_contiguous(*shape, *strides);
  const MadeTensor* tensor = make(tensors_, {{.storage = storage->name,
                                              .storage_items = storage->items,
                                              .first_item = begin,
                                              .dtype = storage->dtype,
                                              .shape = std::move(*shape)},
                                             is_whole});
  push(tensor);
}

void Unpickler::set_items(size_t count) {
  const auto items = last(count);
  if (count % 2 != 0) refuse_damaged();
  auto* dictionary = as<Dictionary>(last(count + 1).front());
  if (dictionary == nullptr) refuse_damaged();
  for (size_t i = 0; i < count; i += 2) {
    charge(2 * sizeof(std::pair<Value, Value>));  // a vector may be half empty
    dictionary->items.emplace_back(items[i], items[i + 1]);
  }
  drop(count);
}

void Unpickler::append(size_t count) {
  drop(count);
  if (!std::holds_alternative<Other>(top())) refuse_damaged();
}

// Ignores attributes, such as _metadata of an OrderedDict of transformers.
void Unpickler::build() {
  pop();
  if (as<Dictionary>(top()) == nullptr) refuse_damaged();
}

void Unpickler::reduce() {
  const Value values = pop();
  const Value called = pop();
  const auto* arguments = as<const Tuple>(values);
  const auto* global = as<const Global>(called);
  if (arguments == nullptr || global == nullptr) refuse_damaged();
  const auto& items = arguments->items;
  if (global->meaning == Global::kTensor) return push_tensor(items);
  if (global->meaning == Global::kOrderedDict && items.empty()) return push_dictionary();
  const bool is_parameter = global->meaning == Global::kParameter && !items.empty() &&
                            as<const MadeTensor>(items[0]) != nullptr;
  if (!is_parameter) refuse_damaged();
  push(items[0]);
}

PickledTensor Unpickler::named_tensor(std::string_view name, const Value& value) const {
  const auto* tensor = as<const MadeTensor>(value);
  if (tensor == nullptr) {
    refuse("holds '" + std::string(name) + "', which is " +
           (as<Dictionary>(value) != nullptr
                ? "a dictionary: it is a training checkpoint, not a model's weights"
                : "no tensor") +
           "; " + kSaveAgain);
  }
  if (!tensor->is_contiguous) {
    refuse("tensor '" + std::string(name) +
           "' has elements that do not follow each other (it is transposed, or a slice); call "
           "contiguous() on every tensor and save them again, or " +
           kSaveAgain);
  }
  return tensor->place;
}

std::map<std::string, PickledTensor> Unpickler::run() {
  for (char opcode = take<char>(); opcode != '.'; opcode = take<char>()) step(opcode);
  const Value made = pop();
  const auto* dictionary = as<Dictionary>(made);
  if (dictionary == nullptr) refuse("holds no dictionary of tensors by name; " + kSaveAgain);
  std::map<std::string, PickledTensor> tensors;
  for (const auto& [key, value] : dictionary->items) {
    const auto* name = as<const std::string_view>(key);
    if (name == nullptr) refuse("holds something whose name is not text");
    PickledTensor tensor = named_tensor(*name, value);
    charge(kBytesOfTensor + name->size() + tensor.shape.size() * sizeof(int64_t));
    tensors.insert_or_assign(std::string(*name), std::move(tensor));
  }
  return tensors;
}

}  // namespace

std::map<std::string, PickledTensor> read_pickled_tensors(const std::filesystem::path& file,
                                                          std::string_view bytes) {
  return Unpickler(file, bytes).run();
}

}  // namespace fsdp
