#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/report/series.h"

// Whether runs that compute the same have the same losses. Pure.
namespace fsdp {

// Runs that finished and must have equal losses: model, data, seed, total batch, steps and
// precision are equal. Compared are the steps that all of them have.
struct LossAgreement {
  Runs runs;
  bool is_every_step = false;   // false: of runs whose steps were not read the first and the last
  bool is_whole = false;        // every step of every run was compared
  size_t step_count = 0;        // that were compared
  size_t not_finite_count = 0;  // of these, where no run's loss is finite
  // The largest relative difference of a step's losses, infinite where some are not finite, and
  // what sharding, which sums in another order, may make of it.
  double difference = 0;
  double allowed = 0;
  std::optional<int64_t> parted_at{};  // the first step at which it is more than that
  // The runs with the least and the greatest loss at that step; absent: not finite.
  const ComparisonRow* least = nullptr;
  const ComparisonRow* greatest = nullptr;
  std::optional<double> least_loss{};
  std::optional<double> greatest_loss{};
};

// True if an attempt of the run went on from a checkpoint.
bool is_resumed(const ComparisonRow& run);

// Of rows that share a digest of what decides the losses, in the order of the first of each; of
// the others, none. Compares ComparisonRow::losses, or else the first and the last loss.
std::vector<LossAgreement> loss_agreements(Rows rows);

// A loss in a sentence: "2.5", "not finite".
std::string loss_in_words(std::optional<double> loss);

}  // namespace fsdp
