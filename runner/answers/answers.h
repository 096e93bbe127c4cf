#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/series/series.h"
#include "runner/table/table.h"

// Answers a reader's questions about a comparison in sentences. Do the runs fit, how much memory do
// they take and why, how fast are they, are losses the same? No sentence names a winner if noise
// may explain the difference. Pure.
//
// To add an answer: add its facts to runner/answers/facts.h and to a file like
// runner/answers/speed_facts.cpp, and its words to runner/answers/answers.cpp. Test both in
// tests/runner/report/: speeds in speed_facts_test.cpp, and each sentence in answers_test.cpp.
//
// To add a warning, such as few_steps: write the function that names the rows, and its line of
// kChecks, in runner/answers/warnings.cpp. Test rows that have it and rows that do not in
// tests/runner/report/warnings_test.cpp.
namespace fsdp {

// Returns answers for rows of one experiment with one baseline. Empty if no run was started.
// Several answers in a row may have the same question.
std::vector<Answer> answers_for(Rows rows);

// Returns the set-up that all rows share: "Llama 6.62M, fp32, 128 tokens a row, chess data; AMD
// EPYC (CPU), 1 thread a rank, 4 ranks".
std::string set_up_of(Rows rows);
// Returns what runs without a GPU say about GPUs. Empty: some runs are on GPUs.
std::string device_remark(Rows rows);

struct LossFacts;
// Returns the answer about losses. Empty: no run has a loss.
std::string loss_answer(const LossFacts& facts, Rows rows);
// Explains the `*` at losses that are not comparable with those of most rows. Empty: no loss is
// marked.
std::string loss_legend(const LossFacts& facts);

// The rows that tie for best in a column, within noise.
struct BestRows {
  SeriesRows rows{};  // empty if all rows tie, or if they cannot be compared
  std::string column{};
};
BestRows fastest_rows(Rows rows);
BestRows rows_with_least_memory(Rows rows);  // within 1 %

// "4xDDP, 4xFSDP and offload"
std::string names_of(Rows rows);

// --- warnings: problems of a comparison, each with a remedy ---

// Returns the warnings about rows that are shown together, in groups that share a baseline. Each
// warning appears once, with its findings in every group.
std::vector<Warning> warnings_for(const std::vector<SeriesRows>& groups);

// --- losses of runs that compute the same ---

// A run's loss at one step, or its gradient norm.
struct FigureOfRun {
  const ComparisonRow* run = nullptr;
  std::optional<double> value{};  // nullopt: not finite
};

// How far runs are apart at a step.
struct StepDifference {
  int64_t step = 0;
  bool is_of_loss = true;  // false: of gradient norms
  double difference = 0;   // relative; infinite if only some values are finite
  double allowed = 0;
  FigureOfRun least{}, greatest{};
};

// Finished runs that must have equal losses: their model, data, seed, total batch, steps and
// precision are equal. Only steps that all of them have are compared, by loss, and by gradient norm
// if all have one.
struct LossAgreement {
  Runs runs;
  bool is_every_step = false;   // false: steps were not read, only first and last losses
  bool is_whole = false;        // every step of every run was compared
  size_t step_count = 0;        // compared steps
  size_t not_finite_count = 0;  // compared steps at which no run's loss is finite
  double difference = 0;        // the largest relative difference of a step's losses
  std::vector<StepDifference> differences{};  // of losses, at the steps with a finite one
  std::optional<StepDifference> parting{};    // the first one that is larger than is allowed
};

// True if the run's newest attempt resumed from a checkpoint.
bool is_resumed(const ComparisonRow& run);

// Returns why the losses of two runs with different loss digests need not be equal: "another
// batch".
std::string why_not_compared(const ComparisonRow& run, const ComparisonRow& other);

// Returns the verdict on each pair of finished runs with an equal loss_digest. Runs that agree with
// the same run are one agreement. If not all agree with the first one, there is an agreement with a
// parting of the first one and the first of the others. Compares ComparisonRow::losses, or else the
// first and the last loss.
std::vector<LossAgreement> loss_agreements(Rows rows);

// A loss in a sentence: "2.5", "not finite".
std::string loss_in_words(std::optional<double> loss);

// --- rows of several people that should be alike but differ ---

// Returns the experiment's original name: "lab" for `alice/lab`, which was merged from alice.
std::string own_experiment(const ComparisonRow& run);

// Returns the name of the person that ran it; "here" if it ran in this folder.
std::string person_of(const ComparisonRow& run);

// True if a run of the row finished, or if it does not fit, which is a result too.
bool has_result(const RunRow& row);

struct DifferingRows {
  std::set<const ComparisonRow*> runs;
  std::vector<std::string> lines;  // "* PyTorch 2.9.1, not 2.11.0: bob, carol (4xDDP)."
};

// Returns rows with a result that differ from most others. Versions and machines are compared among
// the rows of an experiment, settings and input files among the rows of a point. If two values are
// equally common, the first one counts as usual. Empty if all rows are of one person.
DifferingRows differing_rows(const std::vector<RunRow>& rows);

}  // namespace fsdp
