#pragma once

#include <set>

#include "runner/answers/answers.h"
#include "runner/series/run_keys.h"
#include "runner/table/names.h"
#include "tests/runner/report/made_up_experiments.h"
#include "tests/runner/report/sentence_reader.h"

// Compares the answers about losses with the truth. A false sentence is a std::runtime_error.
namespace fsdp {

class LossSentences {
 public:
  explicit LossSentences(const MadeUpExperiment& made) : made_(made) {
    for (size_t i = 0; i < made.runs.size(); ++i) {
      const ComparisonRow& run = made.runs[i];
      if (run.status != RunStatus::kFinished) continue;
      runs_of_[quoted_if_unclear(run.series)].push_back(i);
      if (run.point != run.series) runs_of_[quoted_if_unclear(run.point)].push_back(i);
    }
    for (const auto& [name, runs] : runs_of_) names_.push_back(name);
  }

  void check(const std::string& text) {
    if (text.empty()) {
      if (!runs_of_.empty()) throw std::runtime_error("nothing is said of losses");
      return;
    }
    SentenceReader reader(text, names_);
    if (text.find(" -> ") != std::string::npos) return check_one_loss(text);
    if (reader.take("cannot be compared with ")) return check_nothing_compared(reader);
    while (!reader.is_at_end()) {
      check_part(reader);
      if (!reader.is_at_end()) reader.expect("; ");
    }
    if (tells_all_) require(mentioned_ == all_runs(), "runs that nothing is said of: " + text);
  }

 private:
  using Places = std::set<size_t>;

  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
  }
  const ComparisonRow& run(size_t place) const { return made_.runs[place]; }
  const TrueRun& truth(size_t place) const { return made_.true_runs[place]; }

  Places all_runs() const {
    Places all;
    for (const auto& [name, runs] : runs_of_) all.insert(runs.begin(), runs.end());
    return all;
  }
  Places runs_of(const SentenceReader::NameList& list) {
    Places runs;
    for (const std::string& name : list.names) {
      runs.insert(runs_of_.at(name).begin(), runs_of_.at(name).end());
    }
    tells_all_ = tells_all_ && list.more == 0;
    mentioned_.insert(runs.begin(), runs.end());
    return runs;
  }

  void check_one_loss(const std::string& text) {
    const Places all = all_runs();
    require(all.size() == 1, "one loss of several runs: " + text);
    const bool is_finite = truth(*all.begin()).losses.back().has_value();
    require(is_finite == !text.ends_with("not finite"), "another last loss: " + text);
  }

  void check_part(SentenceReader& reader) {
    if (check_many(reader)) return;
    Places who;
    if (reader.take("all ")) {
      require(static_cast<size_t>(reader.take_number()) == row_count(), "another number of rows");
      who = all_runs();
      mentioned_ = who;
    } else {
      reader.take("the repeats of ");
      const SentenceReader::NameList list = reader.expect_names();
      who = runs_of(list);
      if (reader.take(" not compared: ")) return check_reason(reader, who, {});
      if (list.more > 0) who = runs_with_digest_of(*who.begin());
    }
    require(who.size() > 1, "one run agrees with itself");
    for (const size_t one : who) {
      require(run(one).loss_digest == run(*who.begin()).loss_digest, "others are compared");
    }
    check_agreement(reader, who);
    check_resumed(reader, who);
  }

  Places runs_with_digest_of(size_t place) const {
    Places found;
    for (const size_t other : all_runs()) {
      if (run(other).loss_digest == run(place).loss_digest) found.insert(other);
    }
    return found;
  }

  size_t row_count() const {
    std::set<std::string> rows;
    for (const size_t place : all_runs()) rows.insert(run(place).series);
    return rows.size();
  }

  // "16 runs form 4 groups that compute the same thing; within each group losses agree to 2e-7 at
  // every step"
  bool check_many(SentenceReader& reader) {
    if (!std::isdigit(reader.next())) return false;
    tells_all_ = false;
    reader.take_number();
    reader.expect(" runs form ");
    reader.take_number();
    reader.expect(" groups that compute the same thing; within each group losses ");
    double bound = 0;
    if (!reader.take("are equal ")) {
      reader.expect("agree to ");
      bound = reader.take_number();
      reader.expect(" ");
    }
    reader.expect("at every step");
    const bool is_whole = !reader.take(" that was compared");
    std::map<std::string, Places> groups;
    for (const size_t place : all_runs()) groups[run(place).loss_digest].insert(place);
    size_t plain = 0;
    for (const auto& [digest, runs] : groups) {
      if (digest.empty() || runs.size() < 2 || is_told_alone(runs)) continue;
      ++plain;
      require(largest_difference(runs, compared_steps(runs)) <= bound, "a bound is too small");
      require(!is_whole || is_read(runs), "not every step was compared");
    }
    require(plain > 2, "few groups are told together");
    return true;
  }

  bool is_told_alone(const Places& runs) const {
    const std::set<int64_t> steps = compared_steps(runs);
    return std::ranges::any_of(runs,
                               [&](size_t place) {
                                 const auto not_finite = [&](int64_t step) {
                                   return !truth(place).losses[static_cast<size_t>(step - 1)];
                                 };
                                 return run(place).resumed_from_step.value_or(0) > 0 ||
                                        std::ranges::any_of(steps, not_finite);
                               }) ||
           largest_difference(runs, steps) > 1e-3;
  }

  bool is_read(const Places& runs) const {
    return std::ranges::none_of(runs, [&](size_t place) { return run(place).losses.empty(); });
  }

  // Returns the steps that all runs have. If a run has no losses by step, only the last step
  // counts, and the first one if no run was resumed.
  std::set<int64_t> compared_steps(const Places& runs) const {
    std::set<int64_t> steps;
    const auto last = std::ssize(truth(*runs.begin()).losses);
    for (int64_t step = 1; step <= last; ++step) steps.insert(step);
    for (const size_t place : runs) {
      const bool is_resumed = run(place).resumed_from_step.value_or(0) > 0;
      std::erase_if(steps, [&](int64_t step) {
        if (is_read(runs)) return step < truth(place).first_known_step;
        return step != last && (step != 1 || is_resumed);
      });
    }
    return steps;
  }

  // Returns the relative difference. It is infinite if some, but not all, losses are not finite.
  double difference_at(const Places& runs, int64_t step) const {
    double least = 1e9, greatest = -1e9;
    size_t finite = 0;
    for (const size_t place : runs) {
      const std::optional<double>& loss = truth(place).losses[static_cast<size_t>(step - 1)];
      if (!loss) continue;
      ++finite;
      least = std::min(least, *loss);
      greatest = std::max(greatest, *loss);
    }
    if (finite == 0) return 0;
    if (finite < runs.size()) return std::numeric_limits<double>::infinity();
    return (greatest - least) / greatest;
  }
  double largest_difference(const Places& runs, const std::set<int64_t>& steps) const {
    double largest = 0;
    for (const int64_t step : steps) largest = std::max(largest, difference_at(runs, step));
    return largest;
  }

  void check_agreement(SentenceReader& reader, const Places& who) {
    const std::set<int64_t> steps = compared_steps(who);
    const double largest = largest_difference(who, steps);
    if (reader.take(" do not agree: ")) return check_parted(reader, who, steps);
    if (reader.take(" have no step in common")) return require(steps.empty(), "steps in common");
    if (reader.take(" have no finite loss ")) {
      check_steps(reader, who, steps);
      for (const size_t place : who) {
        for (const int64_t step : steps) {
          require(!truth(place).losses[static_cast<size_t>(step - 1)], "a loss is finite");
        }
      }
      return;
    }
    double bound = 0;
    if (!reader.take(" are equal ")) {
      reader.expect(" agree to ");
      bound = reader.take_number();
      reader.expect(" ");
    }
    require(largest <= bound, "losses differ by more than is said");
    require(bound <= 2.001 * largest || bound < 1e-15, "losses differ by much less than is said");
    check_steps(reader, who, steps);
  }

  // "alpha 2, beta 2.5 at step 2"
  void check_parted(SentenceReader& reader, const Places& who, const std::set<int64_t>& steps) {
    std::vector<std::pair<size_t, std::string>> said;
    for (int i = 0; i < 2; ++i) {
      const std::string name = reader.expect_name();
      require(runs_of_.at(name).size() == 1, "a loss of several runs: " + name);
      reader.expect(" ");
      said.emplace_back(
          runs_of_.at(name).front(),
          reader.take("not finite") ? "not finite" : fmt::format("{:.6g}", reader.take_number()));
      reader.expect(i == 0 ? ", " : " at step ");
    }
    const auto step = static_cast<int64_t>(reader.take_number());
    require(steps.contains(step), "a step that not all have");
    for (const auto& [place, text] : said) {
      require(who.contains(place), "another run's loss: " + run(place).point);
      const std::optional<double>& loss = truth(place).losses[static_cast<size_t>(step - 1)];
      require((loss ? fmt::format("{:.6g}", *loss) : "not finite") == text, "another loss");
    }
    require(difference_at(who, step) > 1e-4, "losses agree at that step");
    for (const int64_t before : steps) {
      require(before >= step || difference_at(who, before) < 0.05, "they parted before");
    }
  }

  void check_steps(SentenceReader& reader, const Places& who, const std::set<int64_t>& steps) {
    const auto all = static_cast<size_t>(std::ssize(truth(*who.begin()).losses));
    const bool is_whole =
        std::ranges::all_of(who, [&](size_t place) { return truth(place).first_known_step == 1; });
    if (reader.take("at all ")) {
      require(static_cast<size_t>(reader.take_number()) == all && steps.size() == all && is_whole,
              "not all steps were compared");
      reader.expect(" steps");
    } else if (reader.take("at the only step")) {
      require(steps.size() == 1, "there are more steps");
      require(reader.take(" that all have") || (all == 1 && is_whole), "one has more steps");
    } else if (reader.take("at the first and the last step")) {
      require(!is_read(who) && steps.size() == 2, "other steps were compared");
    } else if (reader.take("at the last step")) {
      require(!is_read(who) && steps.size() == 1, "other steps were compared");
    } else {
      reader.expect("at the ");
      require(static_cast<size_t>(reader.take_number()) == steps.size() && !is_whole,
              "another number of steps");
      reader.expect(" steps that all have");
    }
    if (!reader.take(", of which ")) return;
    const auto count = static_cast<int64_t>(reader.take_number());
    if (!reader.take(" is not finite")) reader.expect(" are not finite");
    const auto not_finite = std::ranges::count_if(steps, [&](int64_t step) {
      return !truth(*who.begin()).losses[static_cast<size_t>(step - 1)];
    });
    require(count == not_finite, "another number of losses is not finite");
  }

  void check_resumed(SentenceReader& reader, const Places& who) {
    Places said;
    const bool has_remark = reader.take(" (");
    while (has_remark) {
      const std::string name = reader.expect_name();
      reader.expect(" resumed from step ");
      const auto step = static_cast<int64_t>(reader.take_number());
      for (const size_t place : runs_of_.at(name)) {
        require(run(place).resumed_from_step == step, "another step of a checkpoint");
        said.insert(place);
      }
      if (reader.take(")")) break;
      if (reader.take(" and ")) {  // "and 3 more"
        reader.take_until(")");
        return;
      }
      reader.expect(", ");
    }
    for (const size_t place : who) {
      require(said.contains(place) == (run(place).resumed_from_step.value_or(0) > 0),
              "who was resumed is not told");
    }
  }

  // `reference`: the run that `runs` differ from. If absent, the text names that run, or it is any
  // of agreeing().
  void check_reason(SentenceReader& reader, const Places& runs, std::optional<size_t> reference) {
    const std::string reason = reader.take_until("; ");
    std::string why = reason;
    if (const size_t than = reason.find(" than "); than != std::string::npos) {
      why = reason.substr(0, than);
      reference = runs_of_.at(reason.substr(than + 6)).front();
    }
    for (const size_t place : runs) {
      Places others = reference ? Places{*reference} : agreeing();
      require(
          std::ranges::any_of(
              others, [&](size_t other) { return is_true_reason(why, run(place), run(other)); }),
          "a reason that was not found: " + reason + " of " + run(place).point);
    }
    if (!reader.is_at_end()) reader.give_back(2);
  }

  // The runs that share a digest with another run.
  Places agreeing() const {
    Places found;
    for (const size_t place : all_runs()) {
      for (const size_t other : all_runs()) {
        const std::string& digest = run(place).loss_digest;
        if (place != other && !digest.empty() && digest == run(other).loss_digest) {
          found.insert(place);
        }
      }
    }
    return found;
  }

  static bool is_readable(const ComparisonRow& run) {
    return !keys_beyond(Effect::kNotLosses, run).empty();
  }

  static bool is_true_reason(const std::string& why, const ComparisonRow& run,
                             const ComparisonRow& other) {
    if (why == "no record of the settings that decide the losses") return run.loss_digest.empty();
    if (why.starts_with("a record of the settings that decide the losses, but ")) {
      return other.loss_digest.empty();
    }
    if (run.loss_digest == other.loss_digest) return false;
    if (why == "another total batch") return run.total_batch != other.total_batch;
    if (run.total_batch != other.total_batch) return false;
    json own = json::parse(run.spec, nullptr, false);
    json others = json::parse(other.spec, nullptr, false);
    std::set<std::string> differ;
    if (run.data_digest != other.data_digest) differ.insert("input files");
    if (own.is_object() && others.is_object()) {
      for (const auto& [name, pointer] : kDeciding) {
        const json::json_pointer place(pointer);
        const json one = own.value(place, json()), another = others.value(place, json());
        if (one != another) differ.insert(name);
      }
    }
    if (why == "another loss_digest")
      return differ.empty() || !is_readable(run) || !is_readable(other);
    if (!why.starts_with("other ")) return false;
    for (std::string_view names = std::string_view(why).substr(6); !names.empty();) {
      const size_t comma = std::min(names.find(", "), names.size());
      const std::string name(names.substr(0, comma));
      if (!name.ends_with(" more") && !differ.contains(name)) return false;
      names.remove_prefix(std::min(names.size(), comma + 2));
    }
    return true;
  }

  void check_nothing_compared(SentenceReader& reader) {
    require(agreeing().empty(), "some can be compared");
    const size_t reference = runs_of_.at(reader.expect_name()).front();
    mentioned_.insert(reference);
    reader.expect(": ");
    do {
      const Places runs = runs_of(reader.expect_names());
      if (!reader.take(" has ")) reader.expect(" have ");
      check_reason(reader, runs, reference);
    } while (reader.take("; "));
    if (tells_all_) require(mentioned_ == all_runs(), "runs that nothing is said of");
  }

  static constexpr std::pair<const char*, const char*> kDeciding[] = {
      {"train.seed", "/train/seed"},
      {"train.steps", "/train/steps"},
      {"optimizer.learning_rate", "/optimizer/learning_rate"},
      {"precision.kind", "/precision/kind"},
      {"model.config.hidden_size", "/model/config/hidden_size"}};

  const MadeUpExperiment& made_;
  std::map<std::string, std::vector<size_t>> runs_of_;  // by a row's or run's name in answers
  std::vector<std::string> names_;
  Places mentioned_;
  bool tells_all_ = true;
};

}  // namespace fsdp
