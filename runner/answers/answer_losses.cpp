#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "runner/answers/answers.h"
#include "runner/series/run_keys.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// --- the comparison of losses ---

constexpr double kAllowedInFp32 = 1e-4;
constexpr double kAllowedInOthers = 2e-2;

// Returns the first and the last loss. For a resumed run only the last one: its first loss may
// belong to the step from which it resumed.
std::vector<StepLoss> ends_of(const ComparisonRow& run) {
  const int64_t steps_done = run.steps.value_or(0);  // of the whole run, unless the run was resumed
  const int64_t last_step = run.steps_planned.value_or(
      is_resumed(run) ? std::numeric_limits<int64_t>::max() : steps_done);
  const StepLoss last{.step = last_step, .loss = run.loss_last};
  if (is_resumed(run) || last_step <= 1) return {last};
  return {{.step = 1, .loss = run.loss_first}, last};
}

double relative_difference(double low, double high) {
  return low == high ? 0 : (high - low) / std::max(std::abs(low), std::abs(high));
}

void compare_step(LossAgreement& agreement, int64_t step, const std::vector<LossOfRun>& losses) {
  const auto finite = std::ranges::count_if(losses, [](auto& of) { return of.loss.has_value(); });
  ++agreement.step_count;
  if (finite == 0) {
    ++agreement.not_finite_count;
    return;
  }
  const auto [least, greatest] = std::ranges::minmax(losses, {}, &LossOfRun::loss);
  const double difference = finite < std::ssize(losses)
                                ? std::numeric_limits<double>::infinity()
                                : relative_difference(*least.loss, *greatest.loss);
  agreement.difference = std::max(agreement.difference, difference);
  if (difference <= agreement.allowed || agreement.parted_at) return;
  agreement.parted_at = step;
  agreement.least = least;
  agreement.greatest = greatest;
}

LossAgreement agreement_of(Runs runs) {
  const bool is_every_step =
      std::ranges::none_of(runs, [](const ComparisonRow* run) { return run->losses.empty(); });
  std::map<int64_t, std::vector<LossOfRun>> by_step;
  for (const ComparisonRow* run : runs) {
    for (const auto& [step, loss] : is_every_step ? run->losses : ends_of(*run)) {
      std::vector<LossOfRun>& known = by_step[step];
      if (known.empty() || known.back().run != run) known.push_back({run, loss});
    }
  }
  const bool is_fp32 = runs.front()->precision == "fp32";
  LossAgreement agreement{.runs = std::move(runs),
                          .is_every_step = is_every_step,
                          .allowed = is_fp32 ? kAllowedInFp32 : kAllowedInOthers};
  for (const auto& [step, losses] : by_step) {
    if (losses.size() == agreement.runs.size()) compare_step(agreement, step, losses);
  }
  const bool is_from_first_step = !by_step.empty() && by_step.begin()->first == 1;
  agreement.is_whole = is_from_first_step && agreement.step_count == by_step.size();
  return agreement;
}

// --- in words ---

const Series& series_of_run(const ComparisonRow* run, Rows rows) {
  return **std::ranges::find_if(rows, [&](const Series* series) { return series->has(run); });
}

// Returns the name of a run among its series' repeats.
std::string name_of_one(const ComparisonRow* run, Rows rows) {
  const Series& series = series_of_run(run, rows);
  return quoted_if_unclear(series.runs.size() == 1 ? series.name : series.name_of_run(*run));
}

// The names of some runs: whole rows, or single repeats.
struct NamedRuns {
  std::vector<std::string> texts{};
  bool are_rows = true;
};

// Names a row if `runs` contains all of its finished runs, else names each run.
NamedRuns names_of_runs(const Runs& runs, Rows rows) {
  NamedRuns names;
  std::set<const Series*> named;
  for (const ComparisonRow* run : runs) {
    const Series& series = series_of_run(run, rows);
    const auto count = std::ranges::count_if(runs, [&](auto* one) { return series.has(one); });
    if (static_cast<size_t>(count) < series.finished_count) {
      names.texts.push_back(name_of_one(run, rows));
      names.are_rows = false;
    } else if (named.insert(&series).second) {
      names.texts.push_back(quoted_if_unclear(series.name));
    }
  }
  return names;
}

// "at all 12 steps", "at the first and the last step"
std::string steps_in_words(const LossAgreement& agreement) {
  const size_t count = agreement.step_count;
  if (!agreement.is_every_step)
    return count == 1 ? "at the last step" : "at the first and the last step";
  if (count == 1) return agreement.is_whole ? "at the only step" : "at the only step that all have";
  return agreement.is_whole ? fmt::format("at all {} steps", count)
                            : fmt::format("at the {} steps that all have", count);
}

std::string of_steps(const LossAgreement& agreement) {
  const std::string steps = steps_in_words(agreement);
  if (agreement.not_finite_count == 0) return steps;
  return fmt::format("{}, of which {} {} not finite", steps, agreement.not_finite_count,
                     agreement.not_finite_count == 1 ? "is" : "are");
}

// " (B resumed from step 10)"
std::string resumed_remark(const LossAgreement& agreement, Rows rows) {
  const auto text = [&](const ComparisonRow* run) {
    return fmt::format("{} resumed from step {}", name_of_one(run, rows), *run->resumed_from_step);
  };
  const Runs resumed = only(agreement.runs, [](auto* run) { return is_resumed(*run); });
  return resumed.empty() ? "" : fmt::format(" ({})", joined_names(mapped(resumed, text)));
}

// "4xDDP and 4xFSDP", "all 5", "the repeats of 4xDDP".
std::string agreeing_names(const NamedRuns& names, size_t row_count) {
  if (names.are_rows && names.texts.size() == 1) return "the repeats of " + names.texts.front();
  if (names.are_rows && names.texts.size() == row_count && row_count > 2) {
    return fmt::format("all {}", row_count);
  }
  return names_in_words(names.texts);
}

std::string agreement_text(const LossAgreement& agreement, Rows rows) {
  const std::string who = agreeing_names(names_of_runs(agreement.runs, rows), rows.size());
  const std::string resumed = resumed_remark(agreement, rows);
  if (agreement.parted_at) {
    const auto text = [&](const LossOfRun& one) {
      return name_of_one(one.run, rows) + ' ' + loss_in_words(one.loss);
    };
    return fmt::format("{} do not agree: {}, {} at step {}{}", who, text(agreement.least),
                       text(agreement.greatest), *agreement.parted_at, resumed);
  }
  if (agreement.step_count == 0) return fmt::format("{} have no step in common{}", who, resumed);
  if (agreement.not_finite_count == agreement.step_count) {
    return fmt::format("{} have no finite loss {}{}", who, steps_in_words(agreement), resumed);
  }
  if (agreement.difference == 0) {
    return fmt::format("{} are equal {}{}", who, of_steps(agreement), resumed);
  }
  return fmt::format("{} agree to {} {}{}", who, rounded_up(agreement.difference),
                     of_steps(agreement), resumed);
}

// True if the agreement is reported together with others like it.
bool is_plain(const LossAgreement& agreement) {
  return !agreement.parted_at && agreement.not_finite_count == 0 && agreement.step_count > 0 &&
         std::ranges::none_of(agreement.runs, [](auto* run) { return is_resumed(*run); });
}

// "16 runs form 4 groups that compute the same thing; within each group losses agree to 2e-7 at
// every step"
std::string many_agreements_text(const std::vector<LossAgreement>& agreements) {
  size_t run_count = 0;
  double difference = 0;
  bool is_whole = true;
  for (const LossAgreement& agreement : agreements) {
    run_count += agreement.runs.size();
    difference = std::max(difference, agreement.difference);
    is_whole = is_whole && agreement.is_every_step && agreement.is_whole;
  }
  return fmt::format(
      "{} runs form {} groups that compute the same thing; within each group losses {} {}",
      run_count, agreements.size(),
      difference == 0 ? "are equal" : "agree to " + rounded_up(difference),
      is_whole ? "at every step" : "at every step that was compared");
}

std::vector<std::string> texts_of(std::vector<LossAgreement> agreements, Rows rows) {
  constexpr size_t kMostTold = 2;
  const auto [begin, end] = std::ranges::stable_partition(
      agreements, [](const LossAgreement& agreement) { return !is_plain(agreement); });
  const std::vector<LossAgreement> plain(begin, end);
  if (plain.size() > kMostTold) agreements.erase(begin, end);
  auto texts = mapped(agreements, [&](auto& agreement) { return agreement_text(agreement, rows); });
  if (plain.size() > kMostTold) texts.push_back(many_agreements_text(plain));
  return texts;
}

// --- runs that are not compared ---

// Returns the differences between two runs that may change losses: "other optimizer.learning_rate,
// train.seed". `other_keys` are the keys of `other`. Empty if no difference is found.
std::string differing_keys(const ComparisonRow& run, const ComparisonRow& other,
                           const Keys& other_keys) {
  std::vector<std::string> names;
  if (run.data_digest != other.data_digest) names.push_back("input files");
  for (const auto& [key, value] : changed_keys(other_keys, keys_beyond(Effect::kNotLosses, run))) {
    if (!key.starts_with("batch.")) names.push_back(key);  // the total batches are equal
  }
  return names.empty() ? "" : "other " + first_names(names, kMostNamedKeys);
}

// Returns why the losses of two runs need not be equal.
std::string why_not_compared(const ComparisonRow& run, const ComparisonRow& other,
                             const Keys& other_keys) {
  if (run.loss_digest.empty()) return "no record of the settings that decide the losses";
  if (other.loss_digest.empty())
    return fmt::format("a record of the settings that decide the losses, but {} has none",
                       other.point);
  if (method_of(row_spec(run)) != method_of(row_spec(other))) return "another method";
  if (run.total_batch != other.total_batch) return "another total batch";
  const std::string keys = differing_keys(run, other, other_keys);
  return keys.empty() ? "another loss_digest" : keys;
}

// Returns the reasons why the runs `alone` are not compared with the reference, each with its runs.
auto reasons_of(const Runs& alone, const ComparisonRow& reference) {
  const Keys keys = keys_beyond(Effect::kNotLosses, reference);
  return grouped(alone, [&](auto* run) { return why_not_compared(*run, reference, keys); });
}

// "C not compared: another total batch", "D and E not compared: other train.seed"
std::vector<std::string> alone_texts(const Runs& alone,
                                     const std::vector<LossAgreement>& agreements, Rows rows) {
  const ComparisonRow& reference = *agreements.front().runs.front();
  const std::string than = agreements.size() == 1 ? "" : " than " + name_of_one(&reference, rows);
  return mapped(reasons_of(alone, reference), [&](const auto& reason) {
    const auto& [why, runs] = reason;
    return fmt::format("{} not compared: {}{}", names_in_words(names_of_runs(runs, rows).texts),
                       why, why.starts_with("no ") ? "" : than);
  });
}

// Returns the answer if no two runs compute the same thing: "cannot be compared with A: B has
// another total batch".
std::string nothing_compared(const Runs& runs, Rows rows) {
  const ComparisonRow& reference = *runs.front();
  const auto text = [&](const auto& reason) {
    const std::vector<std::string> names = names_of_runs(reason.second, rows).texts;
    return fmt::format("{} {} {}", names_in_words(names), names.size() == 1 ? "has" : "have",
                       reason.first);
  };
  return fmt::format(
      "cannot be compared with {}: {}", name_of_one(&reference, rows),
      fmt::join(mapped(reasons_of({runs.begin() + 1, runs.end()}, reference), text), "; "));
}

std::string one_loss(const ComparisonRow& run) {
  return fmt::format("{} -> {}", loss_text(run.loss_first, true), loss_text(run.loss_last, true));
}

}  // namespace

bool is_resumed(const ComparisonRow& run) { return run.resumed_from_step.value_or(0) != 0; }

std::vector<LossAgreement> loss_agreements(Rows rows) {
  const Runs runs = only(finished_runs(rows), [](const ComparisonRow* run) {
    return !run->loss_digest.empty() && (!run->losses.empty() || run->steps.value_or(0) > 0);
  });
  std::vector<LossAgreement> agreements;
  for (auto& [digest, alike] : grouped(runs, [](auto* run) { return run->loss_digest; })) {
    if (alike.size() > 1) agreements.push_back(agreement_of(std::move(alike)));
  }
  return agreements;
}

std::string loss_in_words(std::optional<double> loss) {
  return loss ? fmt::format("{:.6g}", *loss) : "not finite";
}

std::string loss_answer(Rows rows) {
  const SeriesRows finished = only(finished_rows(rows), [](const Series* series) {
    return series->median.steps.value_or(0) != 0;
  });
  const Runs runs = finished_runs(finished);
  if (runs.empty()) return "";
  if (runs.size() == 1) return one_loss(*runs.front());
  const std::vector<LossAgreement> agreements = loss_agreements(finished);
  std::set<const ComparisonRow*> compared;
  for (const LossAgreement& agreement : agreements) {
    compared.insert(agreement.runs.begin(), agreement.runs.end());
  }
  if (compared.empty()) return nothing_compared(runs, finished);
  std::vector<std::string> texts = texts_of(agreements, finished);
  const Series& reference = series_of_run(agreements.front().runs.front(), finished);
  const SeriesRows of_its_method = only(finished, [&](const Series* series) {
    return method_of(series->spec) == method_of(reference.spec);
  });
  const Runs alone =
      only(finished_runs(of_its_method), [&](auto* run) { return !compared.contains(run); });
  std::ranges::move(alone_texts(alone, agreements, finished), std::back_inserter(texts));
  if (of_its_method.size() < finished.size()) {
    texts.push_back("losses of different methods are not compared");
  }
  return joined_texts(texts, "; ");
}

}  // namespace fsdp
