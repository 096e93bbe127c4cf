#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// What a command's help says of a word that find_run takes.
inline constexpr const char* kRunWordHelp =
    "A run: its number, its point, EXPERIMENT/POINT, or 8 digits of its hash";

// The run that `word` names: by its number, by its point, by EXPERIMENT/POINT, or by the first 8 or
// more digits of its hash. A point means a run of its experiment's current list when there is one.
// Throws ConfigError with the candidates when several runs are meant, or with the nearest name when
// none is.
RunRecord find_run(const Store& store, const std::string& word);

// The experiments in the results that `word` names: by their name, there also as merged from other
// folders ("alice/lab" for "lab"), or by their file. Empty when it names none; throws ConfigError
// when it is the file of one that has no run.
std::vector<std::string> find_experiments(const Store& store, const std::string& word);

// The experiments that any of the words names, each once. Throws ConfigError as for one word, and,
// with the nearest name, on a word that names none.
std::vector<std::string> find_experiments(const Store& store,
                                          const std::vector<std::string>& words);

// The numbers of the runs that words mean, experiments or runs; without words all. For commands
// that remove or end them: "lab" is not "alice/lab". Throws ConfigError as find_run.
std::set<int64_t> find_runs(const Store& store, const std::vector<std::string>& words);

// "12 (lab/4xFSDP, 0123abcd)", as it stands in messages: the number, and two other ways to name it.
std::string run_label(const RunRecord& run);

}  // namespace fsdp
