#pragma once

#include <filesystem>
#include <memory>

#include "contract/data/prepare.h"
#include "contract/spec/run_spec.h"
#include "trainer/data/data_set.h"

namespace fsdp {

// What a run reads.
class DataSets {
 public:
  // The sets that `spec` names. What is to be tokenized is in the folder of prepared files of the
  // results that `run_folder` is in; where it lacks, it is made in the run's folder.
  // `digest_of` tells which that is. Throws ConfigError when a file is not what it should be, and
  // when the vocabulary of the model, `config`, is too small for a tokenizer's.
  DataSets(const RunSpec& spec, const ModelConfig& config, const std::filesystem::path& run_folder,
           const FileDigestOf& digest_of);

  DataSet& training() const { return *training_; }
  // Null when the run has no validation set.
  DataSet* validation() const { return validation_.get(); }

 private:
  std::unique_ptr<DataSet> training_;
  std::unique_ptr<DataSet> validation_;
};

}  // namespace fsdp
