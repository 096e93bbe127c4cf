#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fsdp {

// A file's state from stat(2). Equal states mean equal bytes, unless they changed within a tick of
// the clock after `changed_unix_ns`.
struct FileState {
  std::string path;    // canonical
  int64_t device = 0;  // 0 where its number says nothing: each mount of a network file system
                       // has another, on each node
  int64_t inode = 0;
  int64_t size_bytes = 0;
  int64_t modified_unix_ns = 0;
  int64_t changed_unix_ns = 0;  // of bytes, name or rights
  // The number of names. It is not among the fields, because it says nothing about the bytes.
  // Adding or removing a name (ln, cp -al) sets changed_unix_ns.
  int64_t link_count = 1;

  bool operator==(const FileState&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("path", self.path);
    visit("device", self.device);
    visit("inode", self.inode);
    visit("size_bytes", self.size_bytes);
    visit("modified_unix_ns", self.modified_unix_ns);
    visit("changed_unix_ns", self.changed_unix_ns);
  }
};

// Throw ConfigError (place: the file) if the file is missing or not a regular one. The second takes
// a descriptor that was opened from it.
FileState state_of(const std::filesystem::path& file);
FileState state_of(const std::filesystem::path& file, int descriptor);

// True if nothing happened to the file, except that it got or lost another name.
bool is_untouched(const FileState& before, FileState now);

}  // namespace fsdp
