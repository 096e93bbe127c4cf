#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

// A results folder, and whose it is.
struct MergeSource {
  std::string name;  // part of a file's name: no '/'
  std::filesystem::path results;
};

struct MergedSource {
  int64_t experiments = 0;
  int64_t runs = 0;
  int64_t new_runs = 0;  // that earlier merges did not bring
  std::string skipped;   // why nothing of the source was merged; empty: it was
};

// Brings all of each source's database into that of the folder `results`, or nothing of it. Skips a
// source that is empty, cannot be read, or has runs of the same name from another place.
// Each source has a transaction of its own. The folder's database is not created if every source is
// skipped. Throws ResultsUnavailable if the folder cannot be written; sources before that are
// merged. Sources are only read; schemas of older versions are migrated in a copy.
//
// The experiment `lab` of the source `alice` becomes the experiment `alice/lab` with the source
// `alice`, so that runs of several people stay apart. A run that an earlier merge brought keeps its
// number and is replaced; one that its source no longer has stays, out of the current list. Files
// are not copied: a run's folder is that of the source, as a path from `results`.
std::vector<MergedSource> merge_results(const std::filesystem::path& results,
                                        std::span<const MergeSource> sources);

}  // namespace fsdp
