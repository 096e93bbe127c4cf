#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

// A results folder and its owner's name.
struct MergeSource {
  std::string name;  // part of a file's name: no '/'
  std::filesystem::path results;
};

struct MergedSource {
  int64_t experiments = 0;
  int64_t runs = 0;
  int64_t new_runs = 0;  // not brought by earlier merges
  std::string skipped;   // why the source was not merged; empty: it was
};

// Merges each source's database, completely or not at all, into the database of the folder
// `results`. Skips a source that is empty, cannot be read, or has runs of the same name from
// another place. Each source has its own transaction. Sources are only read; older schemas are
// migrated in a copy. The folder's database is not created if every source is skipped. Throws
// ResultsUnavailable if the folder cannot be written; earlier sources stay merged.
//
// The experiment `lab` of the source `alice` becomes the experiment `alice/lab` with the source
// `alice`, to keep the runs of several people apart. A run from an earlier merge keeps its number
// and is replaced. If its source no longer has it, it stays and leaves the current list. Files are
// not copied: a run keeps the source's folder, as a path from `results`.
std::vector<MergedSource> merge_results(const std::filesystem::path& results,
                                        std::span<const MergeSource> sources);

}  // namespace fsdp
