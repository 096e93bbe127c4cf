#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/report/columns.h"

// Published figures, and what was measured beside them.
namespace fsdp {

struct PublishedFigure {
  std::string point;
  std::string column;
  double value = 0;                   // in the column's unit
  std::optional<double> tolerance{};  // relative; absent: shown, not judged
  std::string note{};
};

// A YAML file; results/reference/lab_a100x4.yaml explains each key.
struct Reference {
  std::string title;
  std::string source;
  std::string experiment;
  std::vector<std::string> points{};       // all of the file's, in their order
  std::vector<PublishedFigure> figures{};  // in the order of the file
};

// Throws ConfigError with the place of what is wrong, what is allowed and the nearest name.
Reference read_reference(const std::filesystem::path& file);

// What became of one figure.
struct Verdict {
  const PublishedFigure* published = nullptr;
  Column column;
  std::optional<double> measured;  // absent: no run, or not measured
  std::string word;                // "ok", "differs", "not judged", "not measured", "no run"

  // measured / published.
  std::optional<double> ratio() const;
};

struct ReferenceReport {
  std::string text;
  // Whether something could be judged and everything that was is within its tolerance.
  bool passed = false;
};

// Of the report's runs those of the reference's experiment, series as rows.
ReferenceReport render_reference(Format format, const Report& report, const Reference& reference);

}  // namespace fsdp
