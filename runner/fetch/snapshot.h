#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "contract/files/hub_cache.h"
#include "runner/fetch/hub.h"

namespace fsdp {

// Whether the snapshot has the file, of the right size; Hugging Face's libraries may keep a file
// there itself instead of a link.
bool is_in_snapshot(const CachedRepository& repository, const std::string& commit,
                    const ListedFile& file);

// Makes the snapshot of `commit` have `files`, whose blobs are whole and which are all files of
// `folders`, and `revision` be it. While
// the links are not all there, the snapshot counts as absent (see cached_path). `wait`
// is called while another fetch does the same. Throws std::runtime_error when the cache cannot be
// written.
void make_visible(const CachedRepository& repository, const std::string& revision,
                  const std::string& commit, const std::vector<ListedFile>& files,
                  const std::vector<std::string>& folders, const std::function<void()>& wait);

}  // namespace fsdp
