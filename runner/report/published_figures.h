#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/report/report.h"

// Compares published figures with measured ones.
namespace fsdp {

struct PublishedFigure {
  std::string point;
  std::string column;
  double value = 0;                   // in the column's unit
  std::optional<double> tolerance{};  // relative; nullopt: shown, not judged
  std::string note{};
};

// A YAML file; results/reference/lab_a100x4.yaml explains each key.
struct Reference {
  std::string title;
  std::string source;
  std::string experiment;
  std::vector<std::string> points{};       // all of the file's points, in their order
  std::vector<PublishedFigure> figures{};  // in the order of the file
};

// Throws ConfigError with the place of the mistake, the allowed values and the nearest name.
Reference read_reference(const std::filesystem::path& file);

struct ReferenceReport {
  std::string text;
  // True if at least one figure was judged, and all judged figures are within their tolerances.
  bool passed = false;
};

// Compares the reference with medians over repeats. The report's runs are of one experiment.
ReferenceReport render_reference(Format format, const Report& report, const Reference& reference);

}  // namespace fsdp
