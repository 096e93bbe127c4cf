// Words the answers about losses, from the facts of loss_facts.cpp.
#include <algorithm>
#include <cmath>
#include <set>

#include "runner/answers/facts.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

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

// "4xDDP and 4xFSDP", "all 5", "the repeats of 4xDDP".
std::string agreeing_names(const NamedRuns& names, size_t row_count) {
  if (names.are_rows && names.texts.size() == 1) return "the repeats of " + names.texts.front();
  if (names.are_rows && names.texts.size() == row_count && row_count > 2) {
    return fmt::format("all {}", row_count);
  }
  return names_in_words(names.texts);
}

// "A and B do not agree: A 2, B 2.5 at step 2, 2e-1 apart (allowed: 1e-6)"
std::string parting_text(const std::string& who, const StepDifference& parting, Rows rows) {
  const auto text = [&](const FigureOfRun& one) {
    return name_of_one(one.run, rows) + ' ' + loss_in_words(one.value);
  };
  std::string apart;
  if (std::isfinite(parting.difference)) {
    apart = fmt::format(", {} apart (allowed: {})", rounded_up(parting.difference),
                        rounded_up(parting.allowed));
  }
  return fmt::format("{} do not agree{}: {}, {} at step {}{}", who,
                     parting.is_of_loss ? "" : " in their gradient norms", text(parting.least),
                     text(parting.greatest), parting.step, apart);
}

// "are equal", "agree to 2e-7"
std::string agree_text(double difference) {
  if (difference == 0) return "are equal";
  if (difference <= kMostNoise) return "agree to " + rounded_up(difference);
  return fmt::format("agree but for rounding, which grew to {},", rounded_up(difference));
}

std::string agreement_text(const LossAgreement& agreement, Rows rows) {
  const std::string who =
      agreeing_names(names_of_runs(agreement.runs, rows), finished_rows(rows).size());
  if (agreement.parting) return parting_text(who, *agreement.parting, rows);
  if (agreement.step_count == 0) return who + " have no step in common";
  if (agreement.not_finite_count == agreement.step_count) {
    return fmt::format("{} have no finite loss {}", who, steps_in_words(agreement));
  }
  return fmt::format("{} {} {}", who, agree_text(agreement.difference), of_steps(agreement));
}

// True if the agreement is reported together with others like it.
bool is_plain(const LossAgreement& agreement) {
  return !agreement.parting && agreement.not_finite_count == 0 && agreement.step_count > 0;
}

// "16 runs form 4 groups; within each group losses agree to 2e-7 at every step"
std::string many_agreements_text(const std::vector<LossAgreement>& agreements) {
  size_t run_count = 0;
  double difference = 0;
  bool is_whole = true;
  for (const LossAgreement& agreement : agreements) {
    run_count += agreement.runs.size();
    difference = std::max(difference, agreement.difference);
    is_whole = is_whole && agreement.is_every_step && agreement.is_whole;
  }
  return fmt::format("{} runs form {} groups; within each group losses {} {}", run_count,
                     agreements.size(), agree_text(difference),
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

}  // namespace

std::string loss_in_words(std::optional<double> loss) {
  return loss ? fmt::format("{:.6g}", *loss) : "not finite";
}

std::string loss_answer(const LossFacts& facts, Rows rows) {
  if (facts.runs.empty()) return "";
  if (facts.runs.size() == 1) {
    const ComparisonRow& run = *facts.runs.front();
    return fmt::format("{} -> {}", loss_text(run.loss_first, true), loss_text(run.loss_last, true));
  }
  if (!facts.agreements.empty()) return joined_texts(texts_of(facts.agreements, rows), "; ");
  const auto text = [](const auto& apart) {
    const auto& [why, alike] = apart;
    return fmt::format("{} {} {}", names_of(alike), alike.size() == 1 ? "has" : "have", why);
  };
  return fmt::format("cannot be compared with {}: {}", names_of(facts.reference_rows),
                     joined_texts(mapped(facts.apart, text), "; "));
}

std::string loss_legend(const LossFacts& facts) {
  const auto others = incomparable(facts);
  if (others.empty()) return "";
  const std::string than = names_of(facts.reference_rows);
  if (others.size() == 1 && !others.front().first.starts_with("no ")) {
    return fmt::format("* {} than {}: losses are not comparable", others.front().first, than);
  }
  const auto text = [](const auto& apart) {
    return fmt::format("{} ({})", apart.first, names_of(apart.second));
  };
  return fmt::format("* losses are not comparable with {}: {}", than,
                     joined_texts(mapped(others, text), "; "));
}

}  // namespace fsdp
