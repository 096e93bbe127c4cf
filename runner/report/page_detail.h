#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/record/event.h"
#include "runner/store/attempts.h"
#include "runner/store/comparison.h"
#include "runner/store/store.h"

// The details of runs that the HTML page shows in addition to their rows.
namespace fsdp {

// Only the first runs of a report have charts and folded parts, at most this many. A page with more
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
  std::vector<AttemptRecord> attempts;  // all of them
  std::vector<RankRow> ranks;
  std::vector<RunStarted> rank_facts;    // of ranks that have reported
  std::vector<std::string> checkpoints;  // their folders, relative to the run's
  Curve training_loss;                   // x: optimizer step
  Curve validation_loss;
  std::vector<UtilizationCurve> utilization;
};

// The texts that a reader wrote for the page.
struct PageHead {
  std::string title{};   // empty: the experiment's title
  std::string author{};  // and their course, for example
  std::string notes{};   // markup, as notes_html() makes it
};

struct HtmlDetail {
  PageHead head{};
  std::vector<ExperimentRecord> experiments{};  // of the runs
  std::vector<RunDetail> runs;
  size_t run_count = 0;  // how many runs are shown, those without detail included
  // The experiments' files at the time of the attempts, by Provenance::experiment_text_digest.
  std::map<std::string, std::string> experiment_texts;
};

}  // namespace fsdp
