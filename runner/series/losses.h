#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/series/series.h"

// Compares the losses of runs that compute the same. Pure.
namespace fsdp {

// Finished runs that must have equal losses: their model, data, seed, total batch, steps and
// precision are equal. Only steps that all of them have are compared.
struct LossAgreement {
  Runs runs;
  bool is_every_step = false;   // false: steps were not read, only first and last losses
  bool is_whole = false;        // every step of every run was compared
  size_t step_count = 0;        // compared steps
  size_t not_finite_count = 0;  // of these, steps where no run's loss is finite
  // The largest relative difference of a step's losses, infinite if only some are finite. `allowed`
  // is the difference that another order of summation, as in sharding, may cause.
  double difference = 0;
  double allowed = 0;
  std::optional<int64_t> parted_at{};  // the first step above `allowed`
  // The runs with the least and the greatest loss at that step. A loss of nullopt is not finite.
  const ComparisonRow* least = nullptr;
  const ComparisonRow* greatest = nullptr;
  std::optional<double> least_loss{};
  std::optional<double> greatest_loss{};
};

// True if an attempt of the run went on from a checkpoint.
bool is_resumed(const ComparisonRow& run);

// Returns an agreement for each group of finished runs with an equal loss_digest, in their order.
// Single runs have none. Compares ComparisonRow::losses, or else the first and the last loss.
std::vector<LossAgreement> loss_agreements(Rows rows);

// A loss in a sentence: "2.5", "not finite".
std::string loss_in_words(std::optional<double> loss);

}  // namespace fsdp
