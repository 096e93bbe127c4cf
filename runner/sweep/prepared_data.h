#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/data/prepare.h"
#include "contract/spec/run_spec.h"

namespace fsdp {

// A prepared file that runs read.
struct PreparedData {
  std::filesystem::path source;  // the data file
  std::filesystem::path file;
  PreparedHeader header;
  bool was_made = false;  // now
  // Per length of sequences that runs ask for: documents that are longer, and cut.
  std::vector<std::pair<int64_t, int64_t>> cut_documents;
};

// Makes the prepared files of all training and validation sets of these runs that lack in the
// results, each once, and shows how far that is. Throws ConfigError for data that is wrong.
std::vector<PreparedData> prepare_data_of(const std::vector<RunSpec>& specs,
                                          const std::filesystem::path& results,
                                          const FileDigestOf& digest_of);

// "games.csv: 2048 documents, 411000 tokens, of which 409000 are trained on".
std::string summary_of(const PreparedData& data);

}  // namespace fsdp
