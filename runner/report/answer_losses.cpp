#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runner/report/answers.h"
#include "runner/report/loss_agreement.h"
#include "runner/report/names.h"
#include "runner/report/number_text.h"

namespace fsdp {
namespace {

using PointNames = std::vector<std::string>;

const std::string& name_in_answers(const ComparisonRow* run, Rows rows) {
  const auto row =
      std::ranges::find_if(rows, [&](const Series* series) { return series->has(run); });
  return (*row)->name;
}

PointNames names_of_series(const Runs& runs, Rows rows) {
  PointNames names;
  for (const ComparisonRow* run : runs) {
    const std::string& name = name_in_answers(run, rows);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

// "2e-07" as people write it: 2e-7.
std::string power_of_ten(double value) {
  std::string text = fmt::format("{:.0e}", value);
  const size_t zero = text.find("e-0");
  if (zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

std::string of_steps(const LossAgreement& agreement) {
  const bool is_all = !agreement.runs.front()->losses.empty();
  const std::string steps = is_all ? fmt::format("at all {} steps", agreement.step_count)
                                   : "at the first and the last step";
  if (agreement.not_finite_count == 0) return steps;
  return fmt::format("{}, of which {} {} not finite", steps, agreement.not_finite_count,
                     agreement.not_finite_count == 1 ? "is" : "are");
}

// "4xDDP and 4xFSDP", "all 5", "the repeats of 4xDDP".
std::string who_agrees(const PointNames& names, size_t row_count) {
  if (names.size() == 1) return "the repeats of " + told_apart(names.front());
  if (names.size() == row_count && row_count > 2) return fmt::format("all {}", row_count);
  PointNames shown;
  std::ranges::transform(names, std::back_inserter(shown), told_apart);
  return names_in_words(shown);
}

std::string agreement_text(const LossAgreement& agreement, Rows rows) {
  const std::string who = who_agrees(names_of_series(agreement.runs, rows), rows.size());
  if (agreement.parted_at) {
    return fmt::format("{} do not agree: {} {:.6g}, {} {:.6g} at step {}", who,
                       name_in_answers(agreement.least, rows), agreement.least_loss,
                       name_in_answers(agreement.greatest, rows), agreement.greatest_loss,
                       *agreement.parted_at);
  }
  if (agreement.difference == 0) return fmt::format("{} are equal {}", who, of_steps(agreement));
  return fmt::format("{} agree to {} {}", who, power_of_ten(agreement.difference),
                     of_steps(agreement));
}

// Of groups that agree at every step that has a loss: "16 rows agree within 4 groups that compute
// the same, to 2e-7".
std::string many_agreements_text(const std::vector<LossAgreement>& agreements, Rows rows) {
  size_t row_count = 0;
  double difference = 0;
  for (const LossAgreement& agreement : agreements) {
    row_count += names_of_series(agreement.runs, rows).size();
    difference = std::max(difference, agreement.difference);
  }
  return fmt::format("{} rows agree within {} groups that compute the same, {}", row_count,
                     agreements.size(),
                     difference == 0 ? "at every step" : "to " + power_of_ten(difference));
}

std::vector<std::string> texts_of(std::vector<LossAgreement> agreements, Rows rows) {
  constexpr size_t kMostTold = 2;
  const auto [begin, end] = std::ranges::stable_partition(agreements, [](const auto& agreement) {
    return agreement.parted_at || agreement.not_finite_count > 0;
  });
  const std::vector<LossAgreement> plain(begin, end);
  if (plain.size() > kMostTold) agreements.erase(begin, end);
  std::vector<std::string> texts;
  for (const LossAgreement& agreement : agreements) {
    texts.push_back(agreement_text(agreement, rows));
  }
  if (plain.size() > kMostTold) texts.push_back(many_agreements_text(plain, rows));
  return texts;
}

bool have_one_total_batch(const SeriesRows& rows) {
  return std::ranges::all_of(rows, [&](const Series* series) {
    return series->median.total_batch == rows.front()->median.total_batch;
  });
}

std::string one_loss(const ComparisonRow& run) {
  if (!run.loss_first || !run.loss_last) return "";
  return fmt::format("{} -> {}", decimals(*run.loss_first, 4), decimals(*run.loss_last, 4));
}

}  // namespace

std::string whether_losses_are_equal(Rows rows) {
  SeriesRows finished = finished_rows(rows);
  std::erase_if(finished,
                [](const Series* series) { return series->median.steps.value_or(0) == 0; });
  if (finished.empty()) return "";
  if (finished.size() == 1 && finished.front()->runs.size() == 1) {
    return one_loss(finished.front()->median);
  }
  const std::vector<LossAgreement> agreements = loss_agreements(finished);
  std::vector<std::string> texts = texts_of(agreements, finished);
  std::set<std::string> compared;
  for (const LossAgreement& agreement : agreements) {
    for (const ComparisonRow* run : agreement.runs) compared.insert(series_name(*run));
  }
  SeriesRows alone;
  std::ranges::copy_if(finished, std::back_inserter(alone), [&](const Series* series) {
    return !compared.contains(series_name(*series->runs.front()));
  });
  const bool is_one_batch = have_one_total_batch(finished);
  if (texts.empty()) {
    return fmt::format("cannot be compared: {} differ",
                       is_one_batch ? "data, model or settings" : "total batches");
  }
  if (!alone.empty()) {
    texts.push_back(
        fmt::format("not {}: {}", names_in_words(points_of(alone)),
                    is_one_batch ? "other data, model or settings" : "another total batch"));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace fsdp
