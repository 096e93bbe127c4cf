#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runner/store/record_files.h"

namespace fsdp {

// A results folder and its owner's name.
struct MergeSource {
  std::string name;  // a file's name that does not begin with '.'
  std::filesystem::path results;
};

struct MergedSource {
  int64_t experiments = 0;
  int64_t runs = 0;
  int64_t new_runs = 0;  // not brought by earlier merges
  std::string skipped;   // why the source was not merged; empty: it was
};

// Copies the files that describe the runs of each source to <results>/merged/<name>/, completely or
// not at all. The index then has the experiment `lab` of the source `alice` as `alice/lab`. Runs
// that an earlier merge brought and that the source no longer has stay, and leave their lists.
// Checkpoints and large logs are not copied. Sources are only read. The results folder is not
// created if every source is skipped. `warn` is told of files that the index cannot take.
//
// A source is skipped if it
//   - holds no runs, or a record that fsdp-run does not write
//   - holds a link, a pipe or a folder under the name of a file, or a file that is too large
//   - has only a results.sqlite, and that cannot be read or is not ours
//   - is these results, is within them or holds them
//   - was merged into them under another name, or has their runs, also through others
//   - has the name of another source that was merged, or an experiment the name of one of our own
//   - has the name of something in <results>/merged that merge did not make
// Throws ConfigError if another merge works on the results. Throws std::system_error or
// ResultsUnavailable if the results cannot be written; earlier sources stay merged.
std::vector<MergedSource> merge_results(
    const std::filesystem::path& results, std::span<const MergeSource> sources,
    const WarnOfFile& warn = [](const std::string&) {});

}  // namespace fsdp
