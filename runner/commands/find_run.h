#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// The help for a word that find_run takes.
inline constexpr const char* kRunWordHelp =
    "A run: its number, its point, EXPERIMENT/POINT, or 8 digits of its hash";

// Returns the run that `word` names: by number, point, EXPERIMENT/POINT, or at least the first 8
// digits of its hash. A point means a run in its experiment's current list, if there is one. Throws
// ConfigError with the candidates if several runs match, or with the nearest name if none does.
RunRecord find_run(const Store& store, const std::string& word);

// Returns the experiments in the results that `word` names, by name or by file. A name also means
// experiments merged from other folders ("alice/lab" for "lab"). Returns {} if `word` names none.
// Throws ConfigError if `word` is the file of an experiment that has no run.
std::vector<std::string> find_experiments(const Store& store, const std::string& word);

// Returns the experiments that any of the words names, each once. Throws ConfigError as for one
// word, or with the nearest name if a word names none.
std::vector<std::string> find_experiments(const Store& store,
                                          const std::vector<std::string>& words);

// Returns the numbers of the runs that the words mean: experiments or runs; no words mean all. For
// commands that remove or end runs: "lab" is not "alice/lab". Throws ConfigError as find_run.
std::set<int64_t> find_runs(const Store& store, const std::vector<std::string>& words);

// Returns "12 (lab/4xFSDP, 0123abcd)" for messages: the number, and two other ways to name the run.
std::string run_label(const RunRecord& run);

}  // namespace fsdp
