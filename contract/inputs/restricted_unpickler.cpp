#include "contract/inputs/restricted_unpickler.h"

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <utility>
#include <variant>

#include "contract/files/input_file.h"
#include "contract/inputs/pickle_opcodes.h"
#include "contract/inputs/pickle_values.h"

namespace fsdp {
namespace pickle {
namespace {

using std::filesystem::path;

constexpr std::array kCallables{
    std::pair{"collections.OrderedDict", Callable::kOrderedDict},
    std::pair{"torch._utils._rebuild_tensor_v2", Callable::kRebuildTensor},
    std::pair{"torch._utils._rebuild_parameter", Callable::kRebuildParameter}};

constexpr std::array kStorageTypes{
    std::pair{"torch.FloatStorage", "F32"}, std::pair{"torch.BFloat16Storage", "BF16"},
    std::pair{"torch.HalfStorage", "F16"},  std::pair{"torch.DoubleStorage", "F64"},
    std::pair{"torch.LongStorage", "I64"},  std::pair{"torch.IntStorage", "I32"},
    std::pair{"torch.ShortStorage", "I16"}, std::pair{"torch.CharStorage", "I8"},
    std::pair{"torch.ByteStorage", "U8"},   std::pair{"torch.BoolStorage", "BOOL"}};

constexpr size_t kLongestText = 1000;
constexpr size_t kDeepestStack = 1 << 16;
// The values of a pickle of tensors take 5 times as many bytes as the pickle. They take 10 times as
// many if the tensors are numbers of one storage.
constexpr size_t kMostBytesOfByte = 8;
constexpr size_t kMoreBytes = 12 << 20;
constexpr size_t kBytesOfTensor = 160;  // in a map, without what its name and shape hold

// The memory of all values of a pickle. It is limited, and freed at once.
class Arena : public std::pmr::memory_resource {
 public:
  Arena(const path& file, size_t pickle_bytes)
      : file_(file), left_bytes_(pickle_bytes * kMostBytesOfByte + kMoreBytes) {}

  // Throws ConfigError if the limit does not allow so many bytes.
  void charge(size_t bytes) {
    if (bytes > left_bytes_) {
      refuse_file(file_,
                  std::string("has a data.pkl of far more values than one of its size has that is "
                              "full of tensors; it is damaged, or ") +
                      kSaveAgain);
    }
    left_bytes_ -= bytes;
  }
  template <typename T, typename... Arguments>
  T* make(Arguments&&... arguments) {
    return std::pmr::polymorphic_allocator<>(this).new_object<T>(
        std::forward<Arguments>(arguments)...);
  }
  Values copy(Values values) {
    auto* copies = static_cast<Value*>(allocate(values.size_bytes(), alignof(Value)));
    std::ranges::uninitialized_copy(values, std::span(copies, values.size()));
    return {copies, values.size()};
  }

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    charge(bytes);
    return memory_.allocate(bytes, alignment);
  }
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  const path& file_;
  size_t left_bytes_;
  std::pmr::monotonic_buffer_resource memory_;
};

// The machine that runs a pickle's program: a stack of values, marks in it, and a memo.
class Unpickler {
 public:
  Unpickler(const path& file, std::string_view pickle, Arena& arena)
      : file_(file), pickle_(pickle), arena_(arena), memo_(&arena) {}

  // Runs the program and returns its value.
  Value run() {
    while (true) {
      const auto opcode = static_cast<Opcode>(take<uint8_t>());
      if (opcode == Opcode::kStop) return pop();
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

  void push(Value value) {
    if (stack_.size() == kDeepestStack) refuse_damaged();
    stack_.push_back(value);
  }
  // The number of values above the last mark.
  size_t height() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Value& top() {
    if (height() == 0) refuse_damaged();
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  // The last `count` values, which stay.
  Values last(size_t count) const {
    if (height() < count) refuse_damaged();
    return Values(stack_).last(count);
  }
  void pop_last(size_t count) { stack_.resize(stack_.size() - last(count).size()); }
  // Removes the last mark. Returns the number of values above it.
  size_t take_mark() {
    if (marks_.empty()) refuse_damaged();
    const size_t count = height();
    marks_.pop_back();
    return count;
  }
  void push_tuple(size_t count) {
    static constexpr Tuple kEmpty{};
    const auto* tuple = count == 0 ? &kEmpty : arena_.make<Tuple>(Tuple{arena_.copy(last(count))});
    pop_last(count);
    push({tuple});
  }
  void push_dictionary() { push({arena_.make<Dictionary>(&arena_)}); }

  void step(Opcode opcode);
  void remember(uint32_t key) {
    if (key >= memo_.size()) memo_.resize(size_t{key} + 1);
    memo_[key] = top();
  }
  void recall(uint32_t key) {
    if (key >= memo_.size() || memo_[key].as<std::monostate>() != nullptr) refuse_damaged();
    push(memo_[key]);
  }
  void take_text();
  void take_long();
  void take_global();
  void set_items(size_t count);
  void append(size_t count);
  void build();
  void reduce();
  // Pushes `made`. It is absent if the arguments had the wrong form.
  template <typename T>
  void push_made(const std::optional<T>& made) {
    if (!made) refuse_damaged();
    push({arena_.make<T>(*made)});
  }

  const path& file_;
  std::string_view pickle_;
  size_t position_ = 0;
  Arena& arena_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  std::pmr::deque<Value> memo_;  // by key: Python counts them up
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
      if (marks_.size() == kDeepestStack) refuse_damaged();
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
      return push_made(storage_of(pop()));
    case Opcode::kInt:
      return push({int64_t{take<int32_t>()}});
    case Opcode::kInt1:
      return push({int64_t{take<uint8_t>()}});
    case Opcode::kInt2:
      return push({int64_t{take<uint16_t>()}});
    case Opcode::kLong1:
      return take_long();
    case Opcode::kText:
      return take_text();
    case Opcode::kEmptyTuple:
      return push_tuple(0);
    case Opcode::kTuple1:
      return push_tuple(1);
    case Opcode::kTuple2:
      return push_tuple(2);
    case Opcode::kTuple3:
      return push_tuple(3);
    case Opcode::kTuple:
      return push_tuple(take_mark());
    case Opcode::kEmptyDictionary:
      return push_dictionary();
    case Opcode::kSetItem:
      return set_items(2);
    case Opcode::kSetItems:
      return set_items(take_mark());
    case Opcode::kFloat:
      take<double>();
      [[fallthrough]];
    case Opcode::kNone:
    case Opcode::kTrue:
    case Opcode::kFalse:
    case Opcode::kEmptyList:
      return push({Other{}});
    case Opcode::kAppend:
      return append(1);
    case Opcode::kAppends:
      return append(take_mark());
  }
  refuse("has a data.pkl with opcode " + std::to_string(static_cast<int>(opcode)) + " at byte " +
         std::to_string(position_ - 1) + ", which no file of tensors has; it is damaged, or " +
         kSaveAgain);
}

void Unpickler::take_text() {
  const auto size = take<uint32_t>();
  if (size > kLongestText) refuse_damaged();
  push({arena_.make<std::string_view>(take_bytes(size))});
}

void Unpickler::take_long() {
  const std::string_view bytes = take_bytes(take<uint8_t>());
  if (bytes.size() > sizeof(int64_t)) refuse_damaged();
  const bool is_negative = !bytes.empty() && static_cast<int8_t>(bytes.back()) < 0;
  int64_t value = is_negative ? -1 : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  push({value});
}

void Unpickler::take_global() {
  const std::string_view module = take_line();
  const std::string_view name = take_line();
  const std::string full = std::string(module) + '.' + std::string(name);
  for (const auto& [known, callable] : kCallables) {
    if (full == known) return push({callable});
  }
  for (const auto& [storage, dtype] : kStorageTypes) {
    if (full == storage) return push({StorageType{dtype}});
  }
  refuse("asks for '" + full +
         "' when it is loaded, which may run any code; only tensors are read, and nothing is "
         "called. If you trust the file, load it in Python and " +
         kSaveAgain);
}

void Unpickler::set_items(size_t count) {
  const Values items = last(count);
  if (count % 2 != 0) refuse_damaged();
  Dictionary* const dictionary = last(count + 1).front().dictionary();
  if (dictionary == nullptr) refuse_damaged();
  for (size_t i = 0; i < count; i += 2) dictionary->items.emplace_back(items[i], items[i + 1]);
  pop_last(count);
}

void Unpickler::append(size_t count) {
  pop_last(count);
  if (top().as<Other>() == nullptr) refuse_damaged();
}

// Ignores attributes, such as _metadata of an OrderedDict of transformers.
void Unpickler::build() {
  pop();
  if (top().dictionary() == nullptr) refuse_damaged();
}

void Unpickler::reduce() {
  const auto* arguments = pop().as<Tuple>();
  const Value called = pop();
  const auto* callable = called.as<Callable>();
  if (arguments == nullptr || callable == nullptr) refuse_damaged();
  const Values items = arguments->items;
  switch (*callable) {
    case Callable::kRebuildTensor:
      return push_made(rebuild_tensor(file_, items));
    case Callable::kOrderedDict:
      if (!items.empty()) refuse_damaged();
      return push_dictionary();
    case Callable::kRebuildParameter:
      if (items.empty() || items[0].as<Tensor>() == nullptr) refuse_damaged();
      return push(items[0]);
  }
}

}  // namespace
}  // namespace pickle

std::map<std::string, PickledTensor> read_pickled_tensors(const std::filesystem::path& file,
                                                          std::string_view bytes) {
  if (bytes.size() > kLargestPickleBytes) {
    refuse_file(file, "has a data.pkl of " + std::to_string(bytes.size()) +
                          " bytes; allowed: at most " + std::to_string(kLargestPickleBytes));
  }
  pickle::Arena arena(file, bytes.size());
  const pickle::Value made = pickle::Unpickler(file, bytes, arena).run();
  const auto* dictionary = made.dictionary();
  if (dictionary == nullptr) {
    refuse_file(file, std::string("holds no dictionary of tensors by name; ") + pickle::kSaveAgain);
  }
  std::map<std::string, PickledTensor> tensors;
  for (const auto& [key, value] : dictionary->items) {
    const auto* name = key.as<std::string_view>();
    if (name == nullptr) refuse_file(file, "holds something whose name is not text");
    const auto* tensor = value.as<pickle::Tensor>();
    if (tensor == nullptr) {
      const bool is_nested = value.dictionary() != nullptr;
      refuse_file(file, "holds '" + std::string(*name) + "', which is " +
                            (is_nested ? "a dictionary: it is a training checkpoint, not a model's "
                                         "weights"
                                       : "no tensor") +
                            "; " + pickle::kSaveAgain);
    }
    if (!tensor->is_contiguous) {
      refuse_file(file,
                  "tensor '" + std::string(*name) +
                      "' has elements that do not follow each "
                      "other (it is transposed, or a slice); call contiguous() on every tensor "
                      "and save them again, or " +
                      pickle::kSaveAgain);
    }
    std::vector<int64_t> shape = shape_of(*tensor);
    arena.charge(pickle::kBytesOfTensor + name->size() + shape.size() * sizeof(int64_t));
    tensors.insert_or_assign(std::string(*name),
                             PickledTensor{.storage = tensor->storage->name,
                                           .storage_items = tensor->storage->items,
                                           .first_item = tensor->first_item,
                                           .dtype = tensor->storage->dtype,
                                           .shape = std::move(shape)});
  }
  return tensors;
}

}  // namespace fsdp
