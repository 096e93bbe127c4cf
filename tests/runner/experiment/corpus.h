#pragma once

#include <string>
#include <vector>

namespace fsdp {

// An experiment file that must be refused.
struct MalformedExperiment {
  std::string title;
  std::string place;               // "lab.yaml:3:15", or "lab.yaml" where no line is at fault
  std::vector<std::string> words;  // what the message says, among other things
  std::string bytes;               // of lab.yaml
};

// Reads a file of tests/runner/experiment/corpus, which holds cases like this one:
//
//   == a misspelt key
//   at 2:1                      (or: at the file)
//   says did you mean 'points'?
//   escaped                     (if "\x1B" and "\r" in the text stand for these bytes)
//   --
//   experiment: lab
//   point: []
std::vector<MalformedExperiment> read_corpus(const std::string& name);

// The names of the corpus's files.
std::vector<std::string> corpus_names();

}  // namespace fsdp
