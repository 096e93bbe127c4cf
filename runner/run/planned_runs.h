#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec.h"
#include "formats/data/prepare.h"
#include "runner/experiment/experiment.h"
#include "runner/store/store.h"

namespace fsdp {

// Throws ConfigError if an input file does not fit its run. The error has the place in the
// experiment that names the file. Runs that read the same files with the same model are checked
// once.
void check_inputs_of(const Expansion& expansion);

// Calls `check`, and adds to its ConfigError the place in the experiment that sets the run's key.
void check_at_place(const Expansion& expansion, const Run& run, const std::function<void()>& check);

// True if `spec` passes check_inputs() whenever `checked` does.
bool reads_the_same(const RunSpec& spec, const RunSpec& checked);

// Returns the run with its identity and its intended folder, runs/<list>/<point>-<hash8> below the
// results. `list` is as in runner/store/list_name.h: runs of two lists may have the same identity.
RunRecord planned_run(std::string_view list, Run run, const FileDigest& digest);

std::vector<RunRecord> planned_runs(std::string_view list, std::vector<Run> runs,
                                    const FileDigest& digest);

// Plans the runs that --only leaves out, except those with unreadable input files.
std::vector<RunRecord> left_out_runs(std::string_view list, std::vector<Run> runs,
                                     const FileDigest& digest);

// Wraps `digest` to compute it once per file.
FileDigest remembered(FileDigest digest);

// A prepared file (a data file's tokens) that runs read.
struct PreparedData {
  std::filesystem::path source;  // the data file
  std::filesystem::path file;
  PreparedHeader header;
  bool was_made = false;  // in this call
  std::string counts;     // RecordCounts::text()
  std::string format;     // of chats: data.format, if it replaces the tokenizer's chat template
  // The tokens lost at one sequence length, because longer documents are cut.
  struct Cut {
    int64_t sequence_length = 0;
    int64_t documents = 0;  // that are cut
    PreparedFile::Cut lost;
  };
  std::vector<Cut> cuts;

  // True if a document has no token that is trained on.
  bool has_untrained_documents() const;
};

// Makes the missing prepared files for the training and validation sets of these runs, each once.
// Shows the progress. Throws ConfigError if data is wrong or nothing is left to train on.
std::vector<PreparedData> prepare_data_of(const std::vector<RunSpec>& specs,
                                          const std::filesystem::path& results,
                                          const FileDigestOf& digest_of);

// Returns `games.csv: 2048 documents, 411000 tokens, of which 409000 are trained on`.
std::string summary_of(const PreparedData& data);

}  // namespace fsdp
