#pragma once

#include <string>
#include <vector>

#include "runner/report/series.h"

// What a reader asks of a comparison, answered in sentences: does it fit, how fast is it, how much
// memory does it take, is the loss the same, what does each change buy? Every sentence has its
// figure, and none names a winner that noise may have made. Pure.
namespace fsdp {

struct Answer {
  std::string question;  // "Fits"
  std::string text;      // without a full stop at its end
};

// Of rows of one experiment with one baseline; none where nothing has been started.
std::vector<Answer> answers_for(Rows rows);

// What all rows have in common: "Llama 6.62M, fp32, 128 tokens a row, chess data; AMD EPYC (CPU), 1
// thread, 4 ranks".
std::string set_up_of(Rows rows);

// Of answers_for(), a file each. Empty: nothing to say.
std::string whether_they_fit(Rows rows);
std::string how_fast_they_are(Rows rows);
std::string whether_losses_are_equal(Rows rows);
std::string how_they_scale(Rows rows);
// What a larger batch, offload, recomputation, sharding or precision changes: of pairs of rows that
// differ in nothing else.
std::vector<Answer> what_changes_bring(Rows rows);

// Rows of which none is better: that no other is faster than beyond noise, or that take no more
// memory than any. None where all are as good, or cannot be compared.
struct FastestRows {
  SeriesRows rows{};
  std::string column{};  // of the speed that they were compared by
};
FastestRows fastest_rows(Rows rows);
SeriesRows rows_with_least_memory(Rows rows);

// Rows of which a run finished.
SeriesRows finished_rows(Rows rows);
std::vector<std::string> points_of(Rows rows);
// In quotes where a list of names would make two of it.
std::string told_apart(const std::string& point);
// "x0.51 of 1 GPU", or "x0.50 to x0.51 of 1 GPU" if least and most read differently. Empty if the
// row is the baseline, or no run of the baseline finished.
std::string ratios_of_baseline(const Series& series, double least, double most);

}  // namespace fsdp
