#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "runner/experiment/experiment.h"
#include "runner/experiment/profile.h"
#include "runner/experiment/sweep.h"

namespace fsdp {

// One run to compare, or several with a sweep.
struct Point {
  std::string name;
  std::string place;
  Overrides overrides;
  std::optional<SweepBlocks> sweep{};  // instead of the experiment's
};

// The contents of an experiment file. Values are read and checked one by one, and not combined.
struct ExperimentFile {
  std::filesystem::path path;
  std::string text;
  std::string name{};
  std::string title{};
  Overrides base{};
  std::vector<Profile> profiles{};
  std::string profiles_place{};
  std::vector<Point> points{};
  SweepBlocks sweep{SweepBlock{}};
  Comparison compare = Comparison::kLoss;

  const SweepBlocks& sweep_of(const Point& point) const {
    return point.sweep ? *point.sweep : sweep;
  }
  // The exclusions of all sweeps.
  std::vector<const Exclusion*> exclusions() const;
};

// Returns the file that a missing `file` means: one of its name, with or without extension, in its
// folder or in experiments/. Empty if there is none.
std::string experiment_meant(const std::filesystem::path& file);

}  // namespace fsdp
