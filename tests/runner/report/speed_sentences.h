#pragma once

#include <set>

#include "runner/answers/answers.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"
#include "tests/runner/report/made_up_experiments.h"
#include "tests/runner/report/sentence_reader.h"

// Compares the answers about fits, speed, changes and scaling with the truth. Throws
// std::runtime_error for an error that noise cannot excuse. Remembers if noise made a sentence
// wrong.
namespace fsdp {

class SpeedSentences {
 public:
  explicit SpeedSentences(const MadeUpExperiment& made) : made_(made) {
    for (size_t row = 0; row < made.truth.size(); ++row) {
      rows_[quoted_if_unclear(made.truth[row].name)] = row;
      names_.push_back(quoted_if_unclear(made.truth[row].name));
    }
    const std::vector<size_t> ranked = ranked_rows();
    double least = 1, most = 0;
    for (const size_t row : ranked) {
      least = std::min(least, made.truth[row].fill);
      most = std::max(most, made.truth[row].fill);
    }
    unit_ = most - least > 0.01 && !ranked.empty() ? "unpadded tokens/s" : "tokens/s";
  }

  bool is_wrong() const { return is_wrong_; }      // noise made a sentence wrong
  bool has_winner() const { return has_winner_; }  // a row is called fastest

  void check_fits(const std::string& text);
  void check_speed(const std::string& text);
  void check_change(const std::string& question, const std::string& text);
  void check_scaling(const std::string& text);

 private:
  using Rows = std::vector<size_t>;

  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
  }
  SentenceReader reader_of(const std::string& text) const { return {text, names_}; }

  size_t count(size_t row, RunStatus status) const {
    size_t found = 0;
    for (size_t i = 0; i < made_.runs.size(); ++i) {
      if (made_.row_of_run[i] == row && made_.runs[i].status == status) ++found;
    }
    return found;
  }
  size_t count(size_t row) const {
    return static_cast<size_t>(std::ranges::count(made_.row_of_run, row));
  }
  bool fits(size_t row) const {
    return count(row, RunStatus::kFinished) > 0 && count(row, RunStatus::kOutOfMemory) == 0;
  }
  const ComparisonRow& first_run(size_t row) const {
    for (size_t i = 0; i < made_.runs.size(); ++i) {
      if (made_.row_of_run[i] == row && made_.runs[i].status == RunStatus::kFinished) {
        return made_.runs[i];
      }
    }
    return made_.runs[static_cast<size_t>(std::ranges::find(made_.row_of_run, row) -
                                          made_.row_of_run.begin())];
  }
  bool is_doubled(size_t row) const { return first_run(row).family_value.has_value(); }

  // Measured speeds of a row's runs that finished.
  std::vector<double> speeds(size_t row, double factor = 1) const {
    std::vector<double> found;
    for (size_t i = 0; i < made_.runs.size(); ++i) {
      const ComparisonRow& run = made_.runs[i];
      if (made_.row_of_run[i] != row || run.status != RunStatus::kFinished) continue;
      found.push_back(*run.tokens_per_second * factor);
    }
    std::ranges::sort(found);
    return found;
  }
  double measured(size_t row) const {
    const bool is_unpadded = unit_ != "tokens/s";
    std::vector<double> all = is_unpadded ? unpadded_speeds(row) : speeds(row);
    return (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
  }
  std::vector<double> unpadded_speeds(size_t row) const {
    std::vector<double> found;
    for (size_t i = 0; i < made_.runs.size(); ++i) {
      const ComparisonRow& run = made_.runs[i];
      if (made_.row_of_run[i] != row || run.status != RunStatus::kFinished) continue;
      found.push_back(*run.unpadded_tokens_per_second);
    }
    std::ranges::sort(found);
    return found;
  }
  double true_speed(size_t row) const {
    const TrueRow& truth = made_.truth[row];
    return unit_ == "tokens/s" ? truth.speed : truth.speed * truth.fill;
  }
  Rows ranked_rows() const {
    Rows ranked;
    for (size_t row = 0; row < made_.truth.size(); ++row) {
      if (!fits(row)) continue;
      const std::vector<double> all = speeds(row);
      const double median = (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
      if (std::isfinite(median)) ranked.push_back(row);
    }
    return ranked;
  }
  // True if the variation of the row's speed can be known.
  bool is_known(size_t row) const {
    const auto finite =
        std::ranges::count_if(speeds(row), [](double s) { return std::isfinite(s); });
    if (finite >= 3) return true;
    std::vector<double> steps;
    for (size_t i = 0; i < made_.runs.size(); ++i) {
      const ComparisonRow& run = made_.runs[i];
      if (made_.row_of_run[i] == row && run.status == RunStatus::kFinished) {
        steps.push_back(static_cast<double>(*run.steps));
      }
    }
    std::ranges::sort(steps);
    const double median = (steps[(steps.size() - 1) / 2] + steps[steps.size() / 2]) / 2;
    return std::llround(median) - 2 >= 4;
  }
  Rows rows_of(const SentenceReader::NameList& list) const {
    Rows rows;
    for (const std::string& name : list.names) rows.push_back(rows_.at(name));
    return rows;
  }

  // Checks the sentence that `chosen` are faster than the other rows of `among`.
  void claim_fastest(const Rows& chosen, const Rows& among) {
    double most = 0;
    for (const size_t row : among) most = std::max(most, true_speed(row));
    for (const size_t row : among) {
      require(is_known(row), "too few steps to say that it is slower");
      const bool is_out = std::ranges::find(chosen, row) == chosen.end();
      if (is_out && true_speed(row) >= most) is_wrong_ = true;
    }
  }
  void claim_difference(double true_ratio, double said_ratio) {
    if (true_ratio == 1 || (true_ratio > 1) != (said_ratio > 1)) is_wrong_ = true;
  }

  std::string check_rows_left_out(const std::string& text) const;
  void check_memory(SentenceReader& reader) const;
  void check_pair(SentenceReader& reader, const std::string& question);

  const MadeUpExperiment& made_;
  std::map<std::string, size_t> rows_;
  std::vector<std::string> names_;
  std::string unit_;
  bool is_wrong_ = false;
  bool has_winner_ = false;
};

// Checks the parts "; not ranked, because of too few steps: A (raise train.steps); not ranked,
// because repeats ran out of memory: B". Returns the text before them.
inline std::string SpeedSentences::check_rows_left_out(const std::string& text) const {
  const size_t few = text.find("; not ranked, because of too few steps: ");
  const size_t no_room = text.find("; not ranked, because repeats ran out of memory: ");
  Rows unknown, at_times;
  for (const size_t row : ranked_rows()) {
    if (!is_known(row)) unknown.push_back(row);
  }
  for (size_t row = 0; row < made_.truth.size(); ++row) {
    if (count(row, RunStatus::kFinished) > 0 && !fits(row)) at_times.push_back(row);
  }
  const auto check = [&](size_t place, std::string_view words, std::string_view end, Rows rows) {
    if (place == std::string::npos) return;
    SentenceReader reader = reader_of(text);
    reader.take_until(words);
    const SentenceReader::NameList list = reader.expect_names();
    if (!end.empty()) reader.expect(end);
    Rows said = rows_of(list);
    std::ranges::sort(said);
    require(list.more > 0 || said == rows, "other rows are left out: " + text);
  };
  check(few, "; not ranked, because of too few steps: ", " (raise train.steps)", unknown);
  check(no_room, "; not ranked, because repeats ran out of memory: ", "", at_times);
  const bool is_compared = text.find("no row is called fastest, because ") == std::string::npos;
  const bool is_one = ranked_rows().size() < 2;
  require(!is_compared || is_one || unknown.empty() == (few == std::string::npos),
          "rows of few steps are not told of: " + text);
  require(!is_compared || at_times.empty() == (no_room == std::string::npos) || is_one,
          "rows that fit at times are not told of: " + text);
  return text.substr(0, std::min(few, no_room));
}

inline void SpeedSentences::check_speed(const std::string& whole) {
  const Rows ranked = ranked_rows();
  require(whole.empty() == ranked.empty(), "rows of which nothing is said: " + whole);
  if (whole.empty()) return;
  const std::string text = check_rows_left_out(whole);
  SentenceReader reader = reader_of(text);
  Rows known;
  for (const size_t row : ranked) {
    if (is_known(row)) known.push_back(row);
  }
  const auto is_reason = [&](std::string_view reason) {
    return text.find(reason) != std::string::npos;
  };
  std::set<std::string> devices;
  for (size_t i = 0; i < made_.runs.size(); ++i) {
    const bool is_in = std::ranges::find(ranked, made_.row_of_run[i]) != ranked.end();
    if (is_in && made_.runs[i].status == RunStatus::kFinished) {
      devices.insert(made_.runs[i].device_name);
    }
  }
  if (is_reason("the rows ran on different devices"))
    return require(devices.size() > 1, "one device: " + text);
  if (is_reason("the rows have different models") || is_reason("of some rows are not known"))
    return;
  require(devices.size() == 1 || ranked.size() == 1, "devices differ: " + text);
  if (const std::optional<std::string> name = reader.take_name();
      name && reader.take(" is fastest, with ")) {
    has_winner_ = true;
    const size_t first = rows_.at(*name);
    require(reader.take_number() == std::stod(short_number(measured(first))), "another speed");
    reader.expect(" " + unit_);
    if (reader.take(" (x")) {
      reader.take_number();
      reader.expect(" of ");
      reader.expect_name();
      reader.expect(")");
    }
    if (!reader.take("; next is ")) reader.expect("; next are ");
    claim_fastest({first}, known);
    const SentenceReader::NameList next = reader.expect_names();
    Rows rest = known;
    std::erase(rest, first);
    if (next.more == 0) claim_fastest(rows_of(next), rest);
    return;
  }
  reader = reader_of(text);
  const bool are_all_equal = reader.take("no difference exceeds the noise: ");
  if (!std::isdigit(reader.next())) {
    const SentenceReader::NameList list = reader.expect_names();
    reader.expect(" are fastest, with ");
    claim_fastest(rows_of(list), known);
  }
  reader.take_number();
  if (reader.take(" to ")) reader.take_number();
  reader.expect(" " + unit_);
  if (are_all_equal || reader.take(", equal within noise")) {
    require(known.size() > 1, "rows of few steps are called equal: " + text);
  } else if (reader.take(", ")) {
    reader.take_number();
    reader.expect(" ms a step");
    require(ranked.size() == 1, "one of several rows: " + text);
  } else {
    require(known.size() < 2, "known rows are not compared: " + text);
  }
  require(reader.is_at_end(), "an unknown sentence: " + text);
}

inline void SpeedSentences::check_memory(SentenceReader& reader) const {
  if (reader.take("least memory: ")) {
    const SentenceReader::NameList list = reader.expect_names();
    for (const size_t row : rows_of(list)) require(fits(row), "it does not fit");
    reader.expect(", ");
  } else {
    reader.take("each takes ");
  }
  reader.take_number();
  reader.expect(" GiB a rank");
  if (reader.take(", x")) {
    reader.take_number();
    reader.expect(" of ");
    reader.expect_name();
  }
}

inline void SpeedSentences::check_fits(const std::string& text) {
  SentenceReader reader = reader_of(text);
  Rows others, doubled, fitting;
  for (size_t row = 0; row < made_.truth.size(); ++row) {
    (is_doubled(row) ? doubled : others).push_back(row);
    if (!is_doubled(row) && fits(row)) fitting.push_back(row);
  }
  if (!doubled.empty()) {
    reader.expect("largest batch.size_per_rank that fits: ");
    std::string most = "none";
    bool is_bounded = false, is_open = false;
    for (const size_t row : doubled) {
      const std::string value = std::to_string(*first_run(row).family_value);
      if (count(row, RunStatus::kFinished) > 0) most = value;
      is_bounded = is_bounded || count(row, RunStatus::kOutOfMemory) > 0;
      is_open = is_open || (!is_bounded && count(row, RunStatus::kFailed) > 0);
    }
    reader.expect(most + " for FSDP");
    reader.expect(is_open ? " so far" : is_bounded ? "" : " (no larger value was tried)");
    if (reader.is_at_end()) return;
    reader.expect("; ");
  }
  const auto known = static_cast<size_t>(std::ranges::count_if(others, [&](size_t row) {
    return count(row, RunStatus::kFinished) + count(row, RunStatus::kOutOfMemory) > 0;
  }));
  if (reader.take("not known")) {
    require(known == 0, "some are known: " + text);
  } else if (reader.take("yes")) {
    require(others.size() == 1 && fitting.size() == 1, "one does not fit: " + text);
  } else if (reader.take("all ")) {
    require(reader.take_number() == static_cast<double>(others.size()) &&
                fitting.size() == others.size(),
            "not all fit: " + text);
  } else {
    require(reader.take_number() == static_cast<double>(fitting.size()), "others fit: " + text);
    reader.expect(" of ");
    require(reader.take_number() == static_cast<double>(known), "more rows: " + text);
    require(reader.take(" that finished or did not fit") == (known < others.size()),
            "others are not known: " + text);
  }
  while (reader.take("; ")) {
    if (reader.sees("least memory: ") || reader.sees("each takes ") ||
        (std::isdigit(reader.next()) && !reader.has(": "))) {
      check_memory(reader);
      continue;
    }
    const std::optional<std::string> begins = reader.take_name();
    if (begins && reader.take(" ran out of memory in ")) {
      const size_t row = rows_.at(*begins);
      require(reader.take_number() == static_cast<double>(count(row, RunStatus::kOutOfMemory)),
              text);
      reader.expect(" of ");
      require(reader.take_number() == static_cast<double>(count(row)), text);
      reader.expect(" repeats");
      continue;
    }
    if (reader.take("does not fit: ") || reader.take("do not fit: ")) {
      for (const size_t row : rows_of(reader.expect_names())) {
        require(count(row, RunStatus::kOutOfMemory) == count(row), "it may fit: " + text);
      }
      continue;
    }
    const std::string status = reader.take_until(": ");
    for (const size_t row : rows_of(reader.expect_names())) {
      require(count(row, RunStatus::kFinished) == 0, "it finished: " + text);
      const bool is_mixed = std::isdigit(status.front());
      for (const RunStatus one :
           {RunStatus::kFailed, RunStatus::kPlanned, RunStatus::kOutOfMemory}) {
        const std::string part =
            (is_mixed ? std::to_string(count(row, one)) + " " : "") + std::string(name_of(one));
        require((count(row, one) > 0) == (status.find(part) != std::string::npos),
                "another status: " + text);
      }
    }
  }
  require(reader.is_at_end(), "an unknown sentence: " + text);
}

inline void SpeedSentences::check_pair(SentenceReader& reader, const std::string& question) {
  const size_t changed = rows_.at(reader.expect_name());
  reader.expect(" against ");
  const size_t plain = rows_.at(reader.expect_name());
  reader.expect(": ");
  require(fits(changed) && fits(plain), "a row that does not fit is compared");
  const json one = json::parse(first_run(changed).spec), other = json::parse(first_run(plain).spec);
  for (const char* section : {"/strategy/offload", "/precision", "/batch", "/train/steps",
                              "/train/seed", "/optimizer", "/model"}) {
    const json::json_pointer place(section);
    const bool may_differ =
        (question == "Offload" && section == std::string("/strategy/offload")) ||
        (question == "Precision" && section == std::string("/precision")) ||
        (question == "Batch" &&
         (section == std::string("/batch") || section == std::string("/train/steps")));
    require(may_differ || one.value(place, json()) == other.value(place, json()),
            std::string("rows differ in ") + section + " too");
  }
  if (reader.take("memory x")) {
    reader.take_number();
    if (!reader.take(", ")) return;
  }
  reader.expect(unit_ + " x");
  const double ratio_said = reader.take_number();
  const double of_measured = measured(changed) / measured(plain);
  require(std::abs(ratio_said - of_measured) <= 0.00501 || of_measured > 1e15, "another ratio");
  if (reader.take(" (within noise)")) return;
  const bool are_known = is_known(changed) && is_known(plain);
  if (reader.take(" (too few steps to tell)")) return require(!are_known, "steps suffice");
  require(are_known, "too few steps to say that it is faster or slower");
  claim_difference(true_speed(changed) / true_speed(plain), of_measured);
}

inline void SpeedSentences::check_change(const std::string& question, const std::string& text) {
  if (text.starts_with("over ")) return;  // of many pairs it tells only the extremes
  SentenceReader reader = reader_of(text);
  do {
    check_pair(reader, question);
  } while (reader.take("; "));
  require(reader.is_at_end(), "an unknown sentence: " + text);
}

// "weak scaling (...), tokens/s of a rank relative to 1: 4 90 % (within noise of 100 %), 8 80 %"
inline void SpeedSentences::check_scaling(const std::string& text) {
  SentenceReader reader = reader_of(text);
  const auto per_rank = [&](size_t row) {
    return made_.truth[row].speed / static_cast<double>(made_.truth[row].ranks);
  };
  do {
    struct Claim {
      size_t row;
      double percent;
    };
    std::vector<Claim> claims;
    if (!reader.take("weak scaling (the total batch grows with the ranks)")) {
      reader.expect("strong scaling (the total batch stays the same)");
    }
    reader.expect(", tokens/s of a rank relative to ");
    const size_t base = rows_.at(reader.expect_name());
    reader.expect(": ");
    do {
      const std::optional<std::string> name = reader.take_name();
      if (!name) {
        reader.take_number();
        reader.expect(" more");
        continue;
      }
      reader.expect(" ");
      const double percent = reader.take_number();
      reader.expect(" %");
      if (reader.take(" (within noise of 100 %)") || reader.take(" (too few steps to tell)"))
        continue;
      claims.push_back({rows_.at(*name), percent});
    } while (reader.take(", "));
    for (const auto& [row, percent] : claims) {
      require(is_known(row) && is_known(base), "too few steps to say how it scales: " + text);
      claim_difference(per_rank(row) / per_rank(base), percent == 100 ? 1 : percent / 100);
    }
  } while (reader.take("; "));
  require(reader.is_at_end(), "an unknown sentence: " + text);
}

}  // namespace fsdp
