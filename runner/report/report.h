#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "contract/record/event.h"
#include "runner/store/attempts.h"
#include "runner/store/comparison.h"
#include "runner/store/store.h"
#include "runner/store/trace_file.h"

// Comparisons of runs as text. Pure: reads no database and no terminal.
namespace fsdp {

// To add a format: add its name, a function like table_latex in runner/table/table.cpp, and a case
// in runner/report/report.cpp. Name it in tests/hostile/kinds/arguments.py.
enum class Format { kTable, kMarkdown, kCsv, kJson, kJsonl, kParquet, kLatex, kHtml };
constexpr auto enum_names(Format) {
  return std::array{"table"sv, "markdown"sv, "csv"sv,   "json"sv,
                    "jsonl"sv, "parquet"sv,  "latex"sv, "html"sv};
}

// The kind of a row: all repeats of a point, a run, or a rank of a run.
enum class RowKind { kSeries, kRun, kRank };

// The choices of a reader. Columns are named as in columns.h. A mistake throws ConfigError with the
// option as the place. Only `baseline` and `group` change figures; the others select or sort them.
struct View {
  std::vector<std::string> columns{};  // these, in this order; "+name": added to the usual ones
  std::vector<std::string> where{};    // "COLUMN OP VALUE", as filter() reads it
  std::string sort{};                  // "name", or "-name" for the largest first
  std::string baseline{};              // a point or series; empty: the first row that finished
  std::string group{};                 // each value has a block of rows with its own baseline
  bool wide = false;                   // people: every usual column, not only the brief ones
};

// --- details of runs that the page shows in addition to their rows ---

// At most this many runs, the first of a report, have charts and folded parts. With more, the page
// would be slow, and its curves hard to tell apart.
inline constexpr size_t kMostDetailedRuns = 32;

struct CurvePoint {
  double x = 0;
  std::optional<double> y;  // nullopt: not finite, or not measured
};

struct Curve {
  std::vector<CurvePoint> points;
  size_t measured = 0;  // number of points before thinning
};

// Reduces a long series to about 500 points without losing a spike. It keeps the first, the last,
// and the least and greatest of each equal part between.
Curve thinned(std::vector<CurvePoint> series);

struct UtilizationCurve {
  std::string host;
  std::string device;  // "gpu:0", "cpu"
  bool own = false;    // a GPU that a rank of the run computed on
  Curve percent;       // x in seconds since the attempt's start
};

// The details of the attempt that a run's row shows.
struct RunDetail {
  int64_t run = 0;
  std::string specification;  // YAML
  Provenance provenance;
  std::vector<AttemptRecord> attempts;  // all attempts of the run
  std::vector<RankRow> ranks;
  std::vector<RunStarted> rank_facts;    // of ranks that have reported
  std::vector<std::string> checkpoints;  // their folders, relative to the run's
  Curve training_loss;                   // x: optimizer step
  Curve validation_loss;
  std::vector<UtilizationCurve> utilization;
  std::optional<MemoryPeak> memory_peak{};  // of the rank with the most; nullopt: not reported
  RankTraces traces{};                      // of the ranks that are drawn
  std::vector<MemoryMoment> step_memory{};  // over the first traced step, of the rank with the most
};

// The texts that a reader wrote for the page.
struct PageHead {
  std::string title{};   // empty: the experiment's title
  std::string author{};  // who wrote the page, and in which course, for example
  std::string notes{};   // paragraphs with blank lines between them
};

struct HtmlDetail {
  PageHead head{};
  std::vector<ExperimentRecord> experiments{};  // of the runs
  std::vector<std::string> commands{};          // that run the experiments again
  std::vector<RunDetail> runs;
  size_t run_count = 0;  // how many runs are shown, those without detail included
  // The experiments' files at the time of the attempts, by Provenance::experiment_text_digest.
  std::map<std::string, std::string> experiment_texts;
};

// --- reports ---

struct Report {
  std::string title;
  std::vector<ComparisonRow> rows;  // runs, in the order shown
  // nullopt: people see series, programs see runs.
  std::optional<RowKind> row_kind;
  std::vector<RankRow> rank_rows;  // of the same runs; used with RowKind::kRank
  View view;
  std::filesystem::path results;   // the folder at which paths of logs begin
  std::vector<std::string> notes;  // lines below the table, after the report's own lines
  bool colour = false;             // table: ANSI colours, for a terminal
  size_t width = 0;                // table: the terminal's width; 0: unlimited
  HtmlDetail html{};               // html: details in addition to the table
};

// Returns the runs that the report shows, each once, in the order of the rows. Throws ConfigError
// if the report's view has a mistake, as render() does.
std::vector<const ComparisonRow*> shown_runs(Format format, const Report& report);

// The formats table, markdown and latex are for people. Figures are rounded, headings have units,
// and reasons, warnings and notes are below. The formats csv (RFC 4180), json, jsonl and parquet
// are for programs. Every figure is in full, with its unit in the name; empty or null: not
// measured. The text ends with a line feed (csv: CR LF). Parquet is bytes. It throws ConfigError if
// its library is missing.
std::string render(Format format, const Report& report);

// The persons of a class.
struct ClassMembers {
  // The experiments of each person with merged results, by their own names.
  std::map<std::string, std::vector<std::string>> experiments;
  // The names of all persons who should have results. nullopt: not given.
  std::optional<std::set<std::string>> roster{};
};

// Returns tables of figures (names or headings of columns) for one experiment of a class, merged
// from several persons. View::wide adds every usual column. Each figure has a block with a row for
// each member and each person with rows, and a column for each point. If a point has figures of
// three persons, its median, least and greatest figure are the last rows. A `*` marks figures of
// other settings, versions or machines than most, of busy hosts, and those far from the others'.
// Below the tables are warnings, the points that each person has not finished, results that are
// copies, the marked differences, and who has no result. Lines too long for the terminal continue
// in tables below. Throws ConfigError (place: --class) if the rows are of several experiments.
std::string render_class(Format format, const Report& report,
                         const std::vector<std::string>& figures, const ClassMembers& members);

// --- published figures beside measured ones ---

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

// Compares the reference with medians over repeats. The report's runs must be of one experiment.
ReferenceReport render_reference(Format format, const Report& report, const Reference& reference);

// Tells how much of its job's requests a run used: "4xFSDP used GPUs busy 93 %, 0.9 of 8 CPUs a
// rank". Requests that were too large follow. Empty: nothing is known, or with `only_if_too_large`
// no request was too large.
std::string use_of_requests(const ComparisonRow& run, bool only_if_too_large = false);

}  // namespace fsdp
