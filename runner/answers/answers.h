#pragma once

#include <string>
#include <vector>

#include "runner/series/series.h"
#include "runner/table/table.h"

// Answers a reader's questions about a comparison in sentences. Do the runs fit, how fast are they,
// how much memory do they take, are losses the same, what does each change bring? Every sentence
// has its figure. None names a winner if noise may explain the difference. Pure.
namespace fsdp {

// Returns answers for rows of one experiment with one baseline. Empty if nothing has been started.
std::vector<Answer> answers_for(Rows rows);

// Returns the set-up that all rows share: "Llama 6.62M, fp32, 128 tokens a row, chess data; AMD
// EPYC (CPU), 1 thread, 4 ranks".
std::string set_up_of(Rows rows);

// Parts of answers_for(), each in a file of its own. Empty: nothing to say.
std::string whether_they_fit(Rows rows);
std::string how_fast_they_are(Rows rows);
std::string whether_losses_are_equal(Rows rows);
std::string how_they_scale(Rows rows);
// Returns the effect of a larger batch, offload, recomputation, sharding or precision. Each is
// taken from pairs of rows that differ in nothing else.
std::vector<Answer> what_changes_bring(Rows rows);

// The rows tied for fastest, within noise, and the rows tied for least memory, within 1 %. Empty if
// all rows tie. The fastest are also empty if the rows cannot be compared.
struct FastestRows {
  SeriesRows rows{};
  std::string column{};  // the speed by which they were compared
};
FastestRows fastest_rows(Rows rows);
SeriesRows rows_with_least_memory(Rows rows);

std::vector<std::string> points_of(Rows rows);
// Returns the name, in quotes if it would read as two names in a list.
std::string told_apart(const std::string& point);
// "x0.51 of 1 GPU", or "x0.50 to x0.51 of 1 GPU" if least and most read differently. Empty if the
// row is the baseline, or no run of the baseline finished.
std::string ratios_of_baseline(const Series& series, double least, double most);

}  // namespace fsdp
