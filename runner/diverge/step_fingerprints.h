#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "contract/record/fingerprint.h"

// Reads what the ranks of a run have left of a step, and joins it to whole tensors and rows.
namespace fsdp {

// The sums of fingerprints (contract/record/fingerprint.h) over a whole tensor or row.
struct Sums {
  int64_t numel = 0;
  bool is_finite = true;
  double square_sum = 0;
  std::array<double, kProjections> projections{};

  Sums& operator+=(const Sums& other);
  Sums operator-(const Sums& other) const;  // square_sum is an estimate: it does not add up

  double norm() const;            // L2
  double projected_norm() const;  // its estimate from the projections
};

// The sums of equal tensors differ by the rounding of fp64: by this part of the norm.
inline constexpr double kSameSums = 1e-9;

// Estimates the L2 distance of two tensors; infinite if only one of them is finite.
double distance(const Sums& one, const Sums& other);
// Estimates the inner product of two tensors.
double inner_product(const Sums& one, const Sums& other);

// Two ranks that should have the same, but do not.
struct Disagreement {
  int64_t rank = 0, other_rank = 0;
  Sums sums{}, other_sums{};
};

// A tensor, a row of a module, or a number that a run has computed.
struct Computed {
  Quantity of{};
  std::string name{};
  std::string state{};
  std::string row{};  // key of StepFingerprints::rows; empty: no row
  Sums sums{};
  std::optional<Disagreement> disagreement{};
};

// The place of a row of the step.
struct RowPlace {
  int64_t rank = 0;
  int64_t number = 0;  // in the step, over all ranks
};

struct StepFingerprints {
  FingerprintsBegin begin{};  // of rank 0
  // By the row's tokens, so rows of two runs are found in whatever order they were read.
  std::map<std::string, RowPlace> rows;
  std::vector<Computed> computed;  // in the order of Quantity, then as computed
  // The places in `computed`, by quantity, name, state and row.
  std::map<std::tuple<Quantity, std::string, std::string, std::string>, size_t> places;

  int64_t step() const { return begin.step; }
  // Returns null if there is none.
  const Computed* find(Quantity of, const std::string& name, const std::string& state = "",
                       const std::string& row = "") const;
};

// Returns the steps that have files in the folder, in order.
std::vector<int64_t> fingerprinted_steps(const std::filesystem::path& folder);

// Throws std::runtime_error, with the file, if a rank's file is missing, cut short, of another
// version or not what fsdp-train writes.
StepFingerprints read_step_fingerprints(const std::filesystem::path& folder, int64_t step);

}  // namespace fsdp
