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
#include "contract/inputs/pickle_values.h"

namespace fsdp {
namespace pickle {
namespace {

using std::filesystem::path;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

constexpr std::array kStorageTypes{
    std::pair{"torch.FloatStorage", "F32"}, std::pair{"torch.BFloat16Storage", "BF16"},
    std::pair{"torch.HalfStorage", "F16"},  std::pair{"torch.DoubleStorage", "F64"},
    std::pair{"torch.LongStorage", "I64"},  std::pair{"torch.IntStorage", "I32"},
    std::pair{"torch.ShortStorage", "I16"}, std::pair{"torch.CharStorage", "I8"},
    std::pair{"torch.ByteStorage", "U8"},   std::pair{"torch.BoolStorage", "BOOL"}};

constexpr size_t kLongestText = 1000;
// What torch.save writes has 6 bytes a value, and at most some 2,000 values on the stack.
constexpr size_t kBytesPerValue = 4;
constexpr size_t kMoreValues = 1000;
constexpr size_t kDeepestStack = 1 << 16;

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
    if (values_.size() >= pickle_.size() / kBytesPerValue + kMoreValues) refuse_damaged();
    values_.push_back({std::move(value)});
    push_again(&values_.back());
  }
  void push_again(Value* value) {
    if (stack_.size() == kDeepestStack) refuse_damaged();
    stack_.push_back(value);
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
    push_again(found->second);
  }
  void take_text();
  void take_long();
  void take_global();
  void set_items(const Values& items);
  void build();
  void reduce();
  // `made`: of arguments, absent when they are not such.
  template <typename T>
  void push_made(const std::optional<T>& made) {
    if (!made) refuse_damaged();
    push(*made);
  }

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
      return push_made(storage_of(*pop()));
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
      return push_again(&other_);
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
  if (callable->name == kRebuildTensor) return push_made(rebuild_tensor(file_, items));
  if (callable->name == kOrderedDict && items.empty()) return push(Dictionary{});
  if (callable->name != kRebuildParameter || items.empty()) refuse_damaged();
  const auto* tensor = items[0]->as<PickledTensor>();
  if (tensor == nullptr) refuse_damaged();
  push(*tensor);
}

}  // namespace
}  // namespace pickle

std::map<std::string, PickledTensor> read_pickled_tensors(const std::filesystem::path& file,
                                                          std::string_view bytes) {
  if (bytes.size() > kLargestPickleBytes) {
    refuse_file(file, "has a data.pkl of " + std::to_string(bytes.size()) +
                          " bytes; allowed: at most " + std::to_string(kLargestPickleBytes));
  }
  pickle::Unpickler unpickler(file, bytes);
  const auto* dictionary = unpickler.run().as<pickle::Dictionary>();
  if (dictionary == nullptr) {
    refuse_file(file, std::string("holds no dictionary of tensors by name; ") + pickle::kSaveAgain);
  }
  std::map<std::string, PickledTensor> tensors;
  for (const auto& [key, value] : dictionary->items) {
    const auto* name = key->as<std::string_view>();
    if (name == nullptr) refuse_file(file, "holds something whose name is not text");
    const auto* tensor = value->as<PickledTensor>();
    if (tensor == nullptr) {
      const bool is_nested = value->as<pickle::Dictionary>() != nullptr;
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
    tensors.insert_or_assign(std::string(*name), *tensor);
  }
  return tensors;
}

}  // namespace fsdp
