#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "contract/spec/run_spec.h"
#include "runner/store/run_status.h"

namespace fsdp {

struct ExperimentRecord {
  std::string name;
  std::string title;
  std::filesystem::path file;    // absolute
  std::string text;              // the file's text when planned
  std::string text_digest;       // of the text
  std::string profile;           // name of the chosen profile
  std::string compare = "loss";  // the rows are compared by "loss" or "throughput"
  std::string source{};          // owner of merged results; empty: planned in this folder

  // `text` is left out: it stands in a file of its own.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("name", self.name);
    visit("title", self.title);
    visit("file", self.file);
    visit("text_digest", self.text_digest);
    visit("profile", self.profile);
    visit("compare", self.compare);
    visit("source", self.source);
  }
};

// A run of an experiment. Before it is planned, it has no id and no status, and `folder` is only
// its wish.
struct RunRecord {
  int64_t id = 0;
  std::string experiment{};
  std::string point;
  RunSpec spec{};  // resolved. Reading a record leaves it out: see Store::spec
  std::string hash;
  std::filesystem::path folder;  // relative to the results folder
  int64_t position = 0;          // in the experiment's list
  std::string series{};          // the point without the number of the repeat
  int64_t repeat = 0;            // within the series, from 0
  std::string data_digest{};     // of the contents of all input files
  std::string loss_digest{};     // runs with the same one must have equal losses
  // The runs that differ in one doubled key only: their common name, the key, and this run's value.
  std::string family{};
  std::string family_key{};
  std::optional<int64_t> family_value{};
  RunStatus status = RunStatus::kPlanned;
  std::string reason{};      // one line; may be empty
  int attempt = 0;           // the newest, 0: none
  std::string source{};      // owner of merged results; empty: planned in this folder
  bool current = true;       // in its experiment's list as last planned
  bool begins_anew = false;  // its next attempt ignores its checkpoints; not recorded

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("id", self.id);
    visit("experiment", self.experiment);
    visit("point", self.point);
    visit("hash", self.hash);
    visit("folder", self.folder);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("attempt", self.attempt);
    visit("source", self.source);
    visit("current", self.current);
    visit("data_digest", self.data_digest);
    visit("repeat", self.repeat);
    visit("position", self.position);
    visit("family", self.family);
    visit("family_key", self.family_key);
    visit("family_value", self.family_value);
    visit("series", self.series);
    visit("loss_digest", self.loss_digest);
  }
};

}  // namespace fsdp
