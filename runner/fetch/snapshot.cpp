#include "runner/fetch/snapshot.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <system_error>

#include "contract/files/new_file.h"
#include "runner/fetch/lock_file.h"

namespace fsdp {
namespace {

using std::filesystem::path;

void write_file(const path& place, const std::string& text) {
  make_folder(place.parent_path());
  try {
    NewFile file(place, name_by_chance(place));
    file.append(std::as_bytes(std::span(text)));
    file.publish();
  } catch (const std::system_error& error) {
    refuse_place(place, error.code().value());
  }
}

// `place` may be in a folder that is itself a link.
void make_link(const path& place, const path& target) {
  make_folder(place.parent_path());
  std::error_code error;
  const path folder = std::filesystem::relative(target.parent_path(), place.parent_path(), error);
  if (error) refuse_place(place, error.value());
  const path temporary = name_by_chance(place);
  std::filesystem::create_symlink(folder / target.filename(), temporary, error);
  if (error) refuse_place(place, error.value());
  std::filesystem::rename(temporary, place, error);
  if (!error) return;
  std::error_code gone;
  std::filesystem::remove(temporary, gone);
  refuse_place(place, error.value());
}

}  // namespace

void make_visible(const CachedRepository& repository, const FetchedCommit& fetched,
                  const std::function<void()>& wait) {
  const std::string& commit = fetched.commit;
  const auto is_missing = [&](const ListedFile& file) { return !repository.has(commit, file); };
  if (std::ranges::any_of(fetched.files, is_missing)) {  // a complete cache may be read-only
    const LockFile lock(repository.lock(commit), wait);
    for (const ListedFile& file : fetched.files) {
      if (is_missing(file)) {
        make_link(repository.snapshot(commit) / file.path, repository.blob(file.hash.text));
      }
    }
  }
  for (const HubListing& listing : fetched.listings) {
    const auto& [folder, is_recursive, files] = listing;
    if (repository.read_listing(commit, folder, is_recursive) != listing) {
      write_file(repository.listing(commit, folder, is_recursive), listing_text(listing));
    }
  }
  const std::string& revision = fetched.name.revision;
  if (revision != commit && repository.commit_of(revision) != commit) {
    write_file(repository.ref(revision), commit);
  }
}

}  // namespace fsdp
