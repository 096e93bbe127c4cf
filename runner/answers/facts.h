#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/answers/answers.h"
#include "runner/series/doubling.h"
#include "runner/series/series.h"
#include "runner/series/speeds.h"

// Facts about rows that are shown together. answers.cpp makes sentences of them. Pure.
namespace fsdp {

// --- memory ---

// Rows with a doubled key are only in `doubled`.
struct MemoryFacts {
  std::vector<DoublingResult> doubled{};
  SeriesRows fitting{};                          // they finished and never ran out of memory
  SeriesRows without_room{};                     // all of their runs ran out of memory
  SeriesRows at_times{};                         // some of their runs did
  SeriesRows unknown{};                          // no run finished or ran out of memory
  std::optional<double> exceeded_limit_bytes{};  // of all rows without room; nullopt: they differ
  SeriesRows measured{};                         // rows that fit, with a known peak
  SeriesRows least{};  // those with the least memory, within 1 %; of all if they tie
};
MemoryFacts memory_facts(Rows rows);

double allocated_bytes(const Series* row);
// True if two figures of memory are equal within 1 %. Between repeats, only the memory that
// libraries request differs.
bool is_equal_memory(double one, double other);

// --- speed ---

struct SpeedFacts {
  SeriesRows measured{};  // rows that fit and have a speed, from the fastest
  SeriesRows ranked{};    // those that can be compared; empty if there are fewer than two
  SeriesRows fastest{};   // no row is faster; they tie within noise
  SeriesRows next{};      // no row but the fastest one is faster; empty if several are fastest
  // Rows that are not ranked: their variance is not known, other processes disturbed them, or some
  // of their repeats ran out of memory.
  SeriesRows too_few_steps{}, disturbed{}, at_times{};
  std::optional<Speed> why_none_ranked{};  // kOtherDevice, kOtherModel or kOtherFilling
};
SpeedFacts speed_facts(Rows rows);

// --- losses ---

// Losses of methods are not equal, but they can be compared: which method learns more?
inline constexpr const char* kAnotherMethod = "another method";

// Rounding alone makes losses differ by at most this part, unless training amplifies it.
inline constexpr double kMostNoise = 0.02;

struct LossFacts {
  Runs runs{};  // that finished and did steps
  std::vector<LossAgreement> agreements{};
  // The most rows whose losses must be equal, the first if several groups have most. If no two
  // runs compute the same, the first row.
  SeriesRows reference_rows{};
  // Other rows, by the reason why their losses are not comparable with those.
  std::vector<std::pair<std::string, SeriesRows>> apart{};
};
LossFacts loss_facts(Rows rows);
// Returns the entries of `apart` whose losses cannot be compared at all: the batch, the data or
// another setting differs. Other methods can be compared.
std::vector<std::pair<std::string, SeriesRows>> incomparable(const LossFacts& facts);

}  // namespace fsdp
