#include "runner/fetch/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <stdexcept>
#include <system_error>

#include "contract/files/new_file.h"
#include "runner/fetch/lock_file.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// A name beside `place` that no other process takes.
path temporary_name(const path& place) {
  return place.string() + ".tmp-" + std::to_string(getpid());
}

void rename_over(const path& temporary, const path& place) {
  std::error_code error;
  std::filesystem::rename(temporary, place, error);
  if (error) refuse_place(place, error.value());
}

void write_file(const path& place, const std::string& text) {
  make_folder(place.parent_path());
  try {
    NewFile file(place, temporary_name(place));
    file.append(std::as_bytes(std::span(text)));
    file.publish();
  } catch (const std::system_error& error) {
    refuse_place(place, error.code().value());
  }
}

void make_link(const path& place, const path& target) {
  make_folder(place.parent_path());
  const path temporary = temporary_name(place);
  std::error_code error;
  std::filesystem::remove(temporary, error);
  std::filesystem::create_symlink(target.lexically_relative(place.parent_path()), temporary, error);
  if (error) refuse_place(temporary, error.value());
  rename_over(temporary, place);
}

}  // namespace

bool is_in_snapshot(const CachedRepository& repository, const std::string& commit,
                    const ListedFile& file) {
  const path place = repository.snapshot(commit) / file.path;
  std::error_code no_link;
  const path target = std::filesystem::read_symlink(place, no_link);
  if (!no_link && target.filename() != file.hash.text) return false;
  struct stat found {};
  return stat(place.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         found.st_size == file.size_bytes;
}

void make_visible(const CachedRepository& repository, const std::string& revision,
                  const std::string& commit, const std::vector<ListedFile>& files,
                  const std::vector<std::string>& folders, const std::function<void()>& wait) {
  const path unfinished = repository.unfinished(commit);
  const bool is_complete =
      !std::filesystem::exists(unfinished) && std::ranges::all_of(files, [&](const auto& file) {
        return is_in_snapshot(repository, commit, file);
      });
  if (!is_complete) {  // one that lacks nothing may be where nothing can be written
    const LockFile lock(repository.lock(commit), wait);
    write_file(unfinished, "");
    for (const ListedFile& file : files) {
      if (is_in_snapshot(repository, commit, file)) continue;
      make_link(repository.snapshot(commit) / file.path, repository.blob(file.hash.text));
    }
    std::error_code error;
    std::filesystem::remove(unfinished, error);
    if (error) refuse_place(unfinished, error.value());
  }
  for (const std::string& folder : folders) {
    const path whole = repository.whole(commit, folder);
    if (!std::filesystem::exists(whole)) write_file(whole, "");
  }
  if (revision != commit && repository.commit_of(revision) != commit) {
    write_file(repository.ref(revision), commit);
  }
}

}  // namespace fsdp
