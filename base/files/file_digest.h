#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

// States and digests of files that others may write to.
namespace fsdp {

// A file's state from stat(2). Equal states mean equal bytes, unless they changed within a tick of
// the clock after `changed_unix_ns`.
struct FileState {
  std::string path;    // canonical
  int64_t device = 0;  // 0 if the number is not fixed: that of a network file system differs
                       // by mount and by node
  int64_t inode = 0;
  int64_t size_bytes = 0;
  int64_t modified_unix_ns = 0;
  int64_t changed_unix_ns = 0;  // of bytes, names or permissions
  // The number of names. It is not in visit_fields, because it says nothing about the bytes. Adding
  // or removing a name (ln, cp -al) sets changed_unix_ns.
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

// A file's digest, and the file's state, which was the same before and after reading.
struct HashedFile {
  FileState state;
  std::string digest;
  // True if the last change was so long before the reading that any later change shows in the
  // state. Only then may the digest be remembered.
  bool is_settled = false;
};

// Reads the file again if it changed meanwhile. Throws ConfigError (place: the file) if it cannot
// be read or changes each time.
HashedFile hash_file(const std::filesystem::path& file);
std::string file_digest(const std::filesystem::path& file);

}  // namespace fsdp
