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

// What the HTML page shows of runs beyond their rows.
namespace fsdp {

// Charts and folded parts are of so many runs at most, the first ones of the report: a page stays
// usable, and so many curves can be told apart.
inline constexpr size_t kMostDetailedRuns = 32;

struct CurvePoint {
  double x = 0;
  std::optional<double> y;  // absent: not finite, or not measured
};

// A curve as it is drawn.
struct Curve {
  std::vector<CurvePoint> points;
  size_t measured = 0;  // points that there are
};

// Of a long series about 500 points: the first, the last, and the least and greatest of each of the
// equal parts between, so that no spike is lost.
Curve thinned(std::vector<CurvePoint> series);

struct UtilizationCurve {
  std::string host;
  std::string device;  // "gpu:0", "cpu"
  bool own = false;    // a GPU that a rank of the run computed on
  Curve percent;       // x in seconds since the attempt's start
};

// Of a run's attempt that its row shows.
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

// What a reader wrote for the page.
struct PageHead {
  std::string title{};   // empty: the experiment's
  std::string author{};  // with the course, or what else belongs to the name
  std::string notes{};   // markup, as notes_html() makes it
};

struct HtmlDetail {
  PageHead head{};
  std::vector<ExperimentRecord> experiments{};  // of the runs
  std::vector<RunDetail> runs;
  size_t run_count = 0;  // how many runs are shown, those without detail included
  // Experiments' files as they were for the attempts, by Provenance::experiment_text_digest.
  std::map<std::string, std::string> experiment_texts;
};

}  // namespace fsdp
