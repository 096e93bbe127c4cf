#pragma once

#include <set>

#include "base/text/json.h"
#include "runner/answers/facts.h"
#include "tests/runner/report/made_up_experiments.h"

// Compares facts about made-up experiments with the truth. Throws std::runtime_error for an error
// that noise cannot excuse. Remembers if noise made a fact wrong.
namespace fsdp {

class TrueFacts {
 public:
  TrueFacts(const MadeUpExperiment& made, const std::deque<Series>& all) : made_(made), all_(all) {
    for (const Series& row : all) {
      if (fits(row) && std::isfinite(*row.median.tokens_per_second)) measured_.push_back(&row);
    }
  }

  bool is_wrong() const { return is_wrong_; }

  void check(const MemoryFacts& facts) const;
  void check(const SpeedFacts& facts);
  void check(const LossFacts& facts) const;

 private:
  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
  }
  static void require_rows(SeriesRows said, SeriesRows truth, const std::string& which) {
    std::ranges::sort(said);
    std::ranges::sort(truth);
    require(said == truth, "other rows " + which);
  }
  template <typename Holds>
  SeriesRows rows_that(Holds holds) const {
    return only(mapped(all_, [](const Series& row) { return &row; }), holds);
  }

  // --- the truth about rows ---

  const TrueRow& truth(const Series& row) const {
    return *std::ranges::find(made_.truth, row.median.series, &TrueRow::name);
  }
  static size_t count(const Series& row, RunStatus status) {
    return static_cast<size_t>(std::ranges::count(row.runs, status, &ComparisonRow::status));
  }
  static bool fits(const Series& row) {
    return count(row, RunStatus::kFinished) > 0 && count(row, RunStatus::kOutOfMemory) == 0;
  }
  static Runs finished(const Series& row) {
    return only(row.runs, [](auto* run) { return run->status == RunStatus::kFinished; });
  }
  static std::vector<double> speeds(const Series& row) {
    return only(mapped(finished(row), [](auto* run) { return *run->tokens_per_second; }),
                [](double speed) { return std::isfinite(speed); });
  }
  // True if the variation of the row's speed can be known: 3 repeats, or 4 steps after 2 of
  // warm-up.
  static bool is_known(const Series& row) {
    if (speeds(row).size() >= 3) return true;
    std::vector<double> steps = mapped(finished(row), [](auto* run) { return 1.0 * *run->steps; });
    std::ranges::sort(steps);
    return std::llround((steps[(steps.size() - 1) / 2] + steps[steps.size() / 2]) / 2) >= 6;
  }
  static std::set<std::string> devices(const Series& row) {
    const auto names = mapped(finished(row), [](auto* run) { return run->device_name; });
    return {names.begin(), names.end()};
  }
  bool differ_in_filling() const {
    const auto fills = mapped(measured_, [&](auto* row) { return truth(*row).fill; });
    return !fills.empty() && std::ranges::max(fills) - std::ranges::min(fills) > 0.01;
  }
  // `chosen` are said to be faster than the other rows of `among`.
  void claim_fastest(const SeriesRows& chosen, const SeriesRows& among) {
    for (const bool is_filled : {true, false}) {
      const auto speed = [&](const Series* row) {
        return truth(*row).speed * (is_filled ? 1 : truth(*row).fill);
      };
      const double most = std::ranges::max(mapped(among, speed));
      for (const Series* row : among) {
        if (!is_among(chosen, row) && speed(row) >= most) is_wrong_ = true;
      }
    }
  }

  // --- the truth about losses ---

  using LossesAt = std::vector<std::optional<double>>;

  const TrueRun& truth(const ComparisonRow* run) const {
    return made_.true_runs[static_cast<size_t>(run - made_.runs.data())];
  }
  LossesAt losses_at(const Runs& runs, int64_t step) const {
    return mapped(runs,
                  [&](auto* run) { return truth(run).losses[static_cast<size_t>(step - 1)]; });
  }
  std::vector<int64_t> common_steps(const LossAgreement& agreement) const;
  double difference_at(const Runs& runs, int64_t step) const;
  void check_agreement(const LossAgreement& agreement) const;
  void check_reason(const std::string& why, const ComparisonRow& run,
                    const ComparisonRow& other) const;

  const MadeUpExperiment& made_;
  const std::deque<Series>& all_;
  SeriesRows measured_;
  bool is_wrong_ = false;
};

inline void TrueFacts::check(const MemoryFacts& facts) const {
  const auto others = [&](auto holds) {
    return rows_that([&](auto* row) { return !row->median.family_value && holds(*row); });
  };
  const auto room = [](const Series& row) { return count(row, RunStatus::kOutOfMemory); };
  require_rows(facts.fitting, others(fits), "fit");
  require_rows(facts.without_room, others([&](auto& row) { return room(row) == row.runs.size(); }),
               "have no room");
  require_rows(facts.at_times,
               others([&](auto& row) { return room(row) > 0 && room(row) < row.runs.size(); }),
               "fit at times");
  require_rows(facts.unknown,
               others([&](auto& row) { return room(row) == 0 && finished(row).empty(); }),
               "are not known to fit");
  for (const Series* row : facts.least) {
    for (const Series* other : facts.measured) {
      require(allocated_bytes(row) <= 1.01 * allocated_bytes(other), "another row takes less");
    }
  }
  require(facts.differences.empty(), "uses of memory that nobody recorded");
  std::optional<int64_t> most, least_without, failed;
  for (const Series* row :
       rows_that([](auto* row) { return row->median.family_value.has_value(); })) {
    const int64_t value = *row->median.family_value;
    if (!finished(*row).empty()) most = value;
    if (room(*row) > 0 && !least_without) least_without = value;
    if (count(*row, RunStatus::kFailed) > 0 && !failed) failed = value;
  }
  if (!most && !least_without && !failed) return require(facts.doubled.empty(), "a doubled key");
  require(facts.doubled.size() == 1, "another number of doubled keys");
  const DoublingResult& doubled = facts.doubled.front();
  require(doubled.largest_that_fits == most, "another largest value");
  require(doubled.smallest_that_does_not == least_without, "another smallest value");
  require(doubled.may_be_larger == (failed && (!least_without || *failed < *least_without)),
          "a larger value may fit, or cannot");
}

inline void TrueFacts::check(const SpeedFacts& facts) {
  require_rows(facts.measured, measured_, "are measured");
  require(std::ranges::is_sorted(facts.measured, std::greater(),
                                 [](auto* row) { return speed_of(*row); }),
          "not from the fastest");
  const SeriesRows known = only(measured_, [](auto* row) { return is_known(*row); });
  require_rows(facts.too_few_steps, only(measured_, [](auto* row) { return !is_known(*row); }),
               "have too few steps");
  require_rows(facts.at_times,
               rows_that([](auto* row) { return !finished(*row).empty() && !fits(*row); }),
               "ran out of memory at times");
  const bool is_one_device = std::ranges::all_of(
      measured_, [&](auto* row) { return devices(*row) == devices(*measured_.front()); });
  require((facts.why_none_ranked == Speed::kOtherDevice) == !is_one_device, "other devices");
  if (facts.why_none_ranked == Speed::kOtherFilling) require(differ_in_filling(), "equally filled");
  if (facts.why_none_ranked || known.size() < 2) {
    return require(facts.ranked.empty() && facts.fastest.empty(), "rows are ranked");
  }
  require_rows(facts.ranked, known, "are ranked");
  claim_fastest(facts.fastest, known);
  require(facts.next.empty() == (facts.fastest.size() > 1), "next are rows of which none is first");
  if (facts.next.empty()) return;
  claim_fastest(facts.next, only(known, [&](auto* row) { return row != facts.fastest.front(); }));
}

// Returns the steps that all runs have. If the losses of steps were not read, these are the last
// step, and the first one unless a run was resumed.
inline std::vector<int64_t> TrueFacts::common_steps(const LossAgreement& agreement) const {
  std::vector<int64_t> steps;
  const auto last = std::ssize(truth(agreement.runs.front()).losses);
  for (int64_t step = 1; step <= last; ++step) {
    const bool have_all = std::ranges::all_of(agreement.runs, [&](auto* run) {
      const bool is_end = step == last || (step == 1 && run->resumed_from_step.value_or(0) == 0);
      return agreement.is_every_step ? step >= truth(run).first_known_step : is_end;
    });
    if (have_all) steps.push_back(step);
  }
  return steps;
}

inline double TrueFacts::difference_at(const Runs& runs, int64_t step) const {
  const LossesAt losses = losses_at(runs, step);
  const auto finite = only(losses, [](auto& loss) { return loss.has_value(); });
  if (finite.empty()) return 0;
  if (finite.size() < losses.size()) return std::numeric_limits<double>::infinity();
  const double least = **std::ranges::min_element(losses);
  const double greatest = **std::ranges::max_element(losses);
  return least == greatest ? 0 : (greatest - least) / greatest;
}

inline void TrueFacts::check_agreement(const LossAgreement& agreement) const {
  const Runs& runs = agreement.runs;
  require(agreement.is_every_step ==
              std::ranges::none_of(runs, [](auto* run) { return run->losses.empty(); }),
          "not every step was read");
  const std::vector<int64_t> steps = common_steps(agreement);
  require(agreement.step_count == steps.size(), "another number of steps");
  const bool is_whole = steps.size() == truth(runs.front()).losses.size();
  require(!agreement.is_every_step || agreement.is_whole == is_whole, "not all steps");
  std::optional<int64_t> parted_at;
  double largest = 0;
  size_t not_finite = 0;
  for (const int64_t step : steps) {
    const double difference = difference_at(runs, step);
    largest = std::max(largest, difference);
    if (!parted_at && difference > agreement.allowed) parted_at = step;
    const LossesAt losses = losses_at(runs, step);
    not_finite += std::ranges::none_of(losses, [](auto& loss) { return loss.has_value(); }) ? 1 : 0;
  }
  require(agreement.allowed == (runs.front()->spec.precision == PrecisionSpec() ? 1e-4 : 2e-2),
          "a bound");
  require(agreement.difference == largest, "another difference");
  require(agreement.not_finite_count == not_finite, "another number of losses is not finite");
  require(agreement.parted_at == parted_at, "another step");
  if (!parted_at) return;
  const LossesAt losses = losses_at(runs, *parted_at);
  require(agreement.least.loss == *std::ranges::min_element(losses), "another least loss");
  require(agreement.greatest.loss == *std::ranges::max_element(losses), "another greatest loss");
  for (const LossOfRun& one : {agreement.least, agreement.greatest}) {
    require(losses_at({one.run}, *parted_at).front() == one.loss, "another run's loss");
  }
}

inline void TrueFacts::check_reason(const std::string& why, const ComparisonRow& run,
                                    const ComparisonRow& other) const {
  constexpr std::pair<const char*, const char*> kDeciding[] = {
      {"train.seed", "/train/seed"},
      {"train.steps", "/train/steps"},
      {"optimizer.learning_rate", "/optimizer/learning_rate"},
      {"precision.kind", "/precision/kind"},
      {"model.config.hidden_size", "/model/config/hidden_size"}};
  const json own = json::parse(json_text(run.spec)), others = json::parse(json_text(other.spec));
  std::string differ = run.data_digest != other.data_digest ? "input files" : "";
  for (const auto& [name, pointer] : kDeciding) {
    const json::json_pointer place(pointer);
    if (own.at(place) != others.at(place)) differ += std::string(" ") + name;
  }
  bool is_true = false;
  if (why.starts_with("no record of")) {
    is_true = run.loss_digest.empty();
  } else if (why.starts_with("a record of")) {
    is_true = !run.loss_digest.empty() && other.loss_digest.empty();
  } else if (why == "another batch") {
    is_true = run.spec.batch.total != other.spec.batch.total;
  } else if (why == "another loss_digest") {
    is_true = differ.empty();
  } else if (why.starts_with("other ")) {
    is_true = run.spec.batch.total == other.spec.batch.total;
    for (const char* name : {"input files", "train.seed", "train.steps", "optimizer.learning_rate",
                             "precision.kind", "hidden_size"}) {
      const bool is_named = why.find(name) != why.npos;
      is_true = is_true && (!is_named || differ.find(name) != differ.npos);
    }
  }
  require(is_true, "a reason that is not true: " + why + " of " + run.point);
}

inline void TrueFacts::check(const LossFacts& facts) const {
  Runs runs;
  for (const ComparisonRow& run : made_.runs) {
    if (run.status == RunStatus::kFinished && *run.steps > 0) runs.push_back(&run);
  }
  require(facts.runs.size() == runs.size(), "another number of runs");
  if (runs.empty()) return;
  size_t agreements = 0;
  for (const auto& [digest, alike] : grouped(runs, [](auto* run) { return run->loss_digest; })) {
    if (digest.empty() || alike.size() < 2) continue;
    require(agreements < facts.agreements.size() && facts.agreements[agreements].runs == alike,
            "others are compared");
    check_agreement(facts.agreements[agreements++]);
  }
  require(facts.agreements.size() == agreements, "more agreements");
  const auto with_losses = rows_that([](auto* row) { return !finished(*row).empty(); });
  const auto rows_of = [&](const LossAgreement& agreement) {
    return only(with_losses, [&](auto* row) {
      return std::ranges::any_of(agreement.runs, [&](auto* run) { return row->has(run); });
    });
  };
  const auto sizes = mapped(facts.agreements, [&](auto& one) { return rows_of(one).size(); });
  const auto largest = std::ranges::max_element(sizes) - sizes.begin();
  const LossAgreement* reference =
      sizes.empty() ? nullptr : &facts.agreements[static_cast<size_t>(largest)];
  const SeriesRows of_reference = reference ? rows_of(*reference) : SeriesRows{with_losses.front()};
  require_rows(facts.reference_rows, of_reference, "agree");
  SeriesRows apart;
  for (const auto& [why, rows] : facts.apart) {
    for (const Series* row : rows) {
      apart.push_back(row);
      check_reason(why, *finished(*row).front(),
                   reference ? *reference->runs.front() : *runs.front());
    }
  }
  require_rows(apart, only(with_losses, [&](auto* row) { return !is_among(of_reference, row); }),
               "are apart");
}

}  // namespace fsdp
