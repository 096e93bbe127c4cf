// Writes changes of memory as PyTorch's allocator would, for pytorch.org/memory_viz and
// torch.cuda._memory_viz. The sums at any moment are those that the rank had.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/files/whole_file.h"
#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

// Writes Python's format pickle, protocol 2: lists and dictionaries of numbers and texts.
class Pickle {
 public:
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  // In a list, after an item. The page reads each group of items as arguments of one call.
  void end_item(size_t index) {
    if (index % 1000 == 999) bytes_ += "e(";
  }

  // Texts that come again are written once: they are few.
  void add(std::string_view text) {
    const auto known = std::ranges::find(texts_, text);
    const auto number = static_cast<char>(known - texts_.begin());
    if (known != texts_.end()) {
      bytes_ += {'h', number};
      return;
    }
    bytes_ += 'X';
    add_little_endian(static_cast<uint32_t>(text.size()));
    bytes_ += text;
    if (texts_.size() == kMostTexts) return;
    bytes_ += {'q', number};
    texts_.emplace_back(text);
  }
  void add(int64_t number) {
    if (std::in_range<int32_t>(number)) {
      bytes_ += 'J';
      return add_little_endian(static_cast<int32_t>(number));
    }
    bytes_ += "\x8a\x08";  // LONG1, of 8 bytes
    add_little_endian(number);
  }
  void add(std::string_view key, auto value) {
    add(key);
    add(value);
  }

  std::string finish() { return bytes_ + '.'; }

 private:
  void add_little_endian(auto number) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    bytes_.append(bytes, sizeof number);
  }

  static constexpr size_t kMostTexts = 256;  // BINPUT has numbers of one byte

  std::string bytes_{"\x80\x02"};
  std::vector<std::string> texts_;
};

// The page shows "backward:3:attention".
void add_frames(Pickle& pickle, const MemoryChange& change) {
  pickle.add("frames");
  pickle.begin_list();
  pickle.begin_dict();
  pickle.add("filename", name_of(change.phase));
  pickle.add("line", change.unit.value_or(-1));
  pickle.add("name", name_of(change.use));
  pickle.end_dict();
  pickle.end_list();
}

void add_event(Pickle& pickle, const char* action, const MemoryChange& change) {
  pickle.begin_dict();
  pickle.add("action", std::string_view(action));
  pickle.add("addr", change.address);
  pickle.add("size", change.bytes);
  pickle.add("stream", change.pool);
  pickle.add("time_us", change.at_ns / 1000);
  pickle.add("category", name_of(change.use));
  add_frames(pickle, change);
  pickle.end_dict();
}

void add_events(Pickle& pickle, std::span<const MemoryChange> changes) {
  size_t count = 0;
  const auto add = [&](const char* action, const MemoryChange& change) {
    add_event(pickle, action, change);
    pickle.end_item(count++);
  };
  for (const MemoryChange& change : changes) {
    if (!change.is_release) {
      add("alloc", change);
      continue;
    }
    add("free_requested", change);
    add("free_completed", change);
  }
  // The page fails if no event has this category.
  pickle.begin_dict();
  pickle.add("action", std::string_view("snapshot"));
  for (const char* none : {"addr", "size", "stream", "time_us"}) pickle.add(none, int64_t{0});
  pickle.add("category", std::string_view("unknown"));
  pickle.end_dict();
}

// Each allocation that is left has a segment of its own, because the device's segments are not
// known.
void add_segment(Pickle& pickle, const MemoryChange& change) {
  pickle.begin_dict();
  pickle.add("device", int64_t{0});
  pickle.add("address", change.address);
  for (const char* size : {"total_size", "allocated_size", "active_size", "requested_size"}) {
    pickle.add(size, change.bytes);
  }
  pickle.add("stream", change.pool);
  pickle.add("segment_type", std::string_view("large"));
  add_frames(pickle, change);
  pickle.add("blocks");
  pickle.begin_list();
  pickle.begin_dict();
  pickle.add("address", change.address);
  pickle.add("size", change.bytes);
  pickle.add("requested_size", change.bytes);
  pickle.add("state", std::string_view("active_allocated"));
  add_frames(pickle, change);
  pickle.end_dict();
  pickle.end_list();
  pickle.end_dict();
}

std::map<int64_t, const MemoryChange*> live_after(std::span<const MemoryChange> changes) {
  std::map<int64_t, const MemoryChange*> live;
  for (const MemoryChange& change : changes) {
    if (change.is_release) {
      live.erase(change.address);
    } else {
      live[change.address] = &change;
    }
  }
  return live;
}

}  // namespace

void write_memory_snapshot(const std::filesystem::path& file,
                           std::span<const MemoryChange> changes) {
  Pickle pickle;
  pickle.begin_dict();
  pickle.add("segments");
  pickle.begin_list();
  size_t count = 0;
  for (const auto& [address, change] : live_after(changes)) {
    add_segment(pickle, *change);
    pickle.end_item(count++);
  }
  pickle.end_list();
  pickle.add("device_traces");
  pickle.begin_list();
  pickle.begin_list();
  add_events(pickle, changes);
  pickle.end_list();
  pickle.end_list();
  pickle.end_dict();
  replace_file(file, pickle.finish());
}

}  // namespace fsdp
