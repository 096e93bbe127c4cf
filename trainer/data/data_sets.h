#pragma once

#include <filesystem>
#include <memory>

#include "contract/spec/run_spec.h"
#include "formats/data/prepare.h"
#include "trainer/data/data_set.h"

namespace fsdp {

// The data sets that a run reads.
class DataSets {
 public:
  // Opens the sets that `spec` names. Tokenized data comes from the prepared files of the results
  // folder that contains `run_folder`. If a prepared file is missing there, makes the file in
  // `run_folder`. Its name follows from digests of the source's files (`digest_of`). Throws
  // ConfigError if a file is invalid, or if the model's vocabulary is too small for the
  // tokenizer's.
  DataSets(const RunSpec& spec, const ModelConfig& config, const std::filesystem::path& run_folder,
           const FileDigestOf& digest_of);

  DataSet& training() const { return *training_; }
  // Null if the run has no validation set.
  DataSet* validation() const { return validation_.get(); }

 private:
  std::unique_ptr<DataSet> training_;
  std::unique_ptr<DataSet> validation_;
};

}  // namespace fsdp
