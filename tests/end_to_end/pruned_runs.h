#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runner/store/database.h"
#include "tests/end_to_end/stub_runs.h"
#include "tests/temporary_folder.h"

// Runs and checkpoints for the tests of fsdp-run prune.
namespace fsdp {

inline std::vector<RunRecord> runs(const Workplace& workplace) {
  return Store(workplace.results()).runs();
}

inline std::filesystem::path folder_of(const Workplace& workplace, int64_t run) {
  return workplace.results() / runs(workplace).at(static_cast<size_t>(run - 1)).folder;
}

inline int64_t count(const Workplace& workplace, const std::string& table) {
  Database database(workplace.results() / "results.sqlite");
  return Statement(database, "select count(*) from " + table).value<int64_t>().value();
}

// Makes a checkpoint complete, as the trainer leaves it.
inline void complete(const std::filesystem::path& checkpoint) {
  nlohmann::json state{{"step", 1}};
  std::ofstream(checkpoint / "weights") << "weights";
  state["files"] = {{{"name", "weights"}, {"size_bytes", 7}}};
  std::ofstream(checkpoint / "trainer.json") << state;
}

}  // namespace fsdp
