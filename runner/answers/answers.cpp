// Words the answers about memory and speed. The facts already know what noise may explain.
#include "runner/answers/answers.h"

#include <algorithm>
#include <map>

#include "runner/answers/facts.h"
#include "runner/answers/why.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

using Texts = std::vector<std::string>;

// --- what fits ---

// "6 for FSDP (8 does not)"
std::string largest_value(const DoublingResult& doubled) {
  const auto& does_not = doubled.smallest_that_does_not;
  const std::string remark = doubled.may_be_larger ? " so far"
                             : does_not            ? fmt::format(" ({} does not)", *does_not)
                                                   : " (no larger value was tried)";
  return fmt::format(
      "{} for {}{}",
      doubled.largest_that_fits ? std::to_string(*doubled.largest_that_fits) : "none",
      quoted_if_unclear(doubled.name), remark);
}

// "largest batch.size_per_rank that fits: 6 for FSDP (8 does not), none for DDP (1 does not)"
Texts largest_values(const MemoryFacts& facts) {
  return mapped(grouped(facts.doubled, &DoublingResult::key), [](const auto& alike) {
    return fmt::format("largest {} that fits: {}", alike.first,
                       fmt::join(mapped(alike.second, largest_value), ", "));
  });
}

// True if the runs could exceed a limit: a GPU's memory, or memory_limit_gib.
bool has_limit(const Series* row) {
  return row->median.spec.device == DeviceKind::kCuda || row->median.spec.memory_limit_gib > 0;
}

// "3 of 5; 1 GPU and 4xDDP do not fit in 24.0 GiB; failed: offload"
std::string rows_that_fit_text(const MemoryFacts& facts) {
  const size_t fitting = facts.fitting.size();
  const size_t count =
      fitting + facts.without_room.size() + facts.at_times.size() + facts.unknown.size();
  if (count == 0) return "";
  if (fitting == count) {
    const bool is_known = std::ranges::all_of(facts.fitting, has_limit);
    return is_known ? fmt::format("all {}", fitting) : "";
  }
  Texts texts{fmt::format("{} of {}", fitting, count)};
  if (const SeriesRows& rows = facts.without_room; !rows.empty()) {
    const auto& limit = facts.exceeded_limit_bytes;
    texts.push_back(fmt::format("{} {} not fit{}", names_of(rows), rows.size() == 1 ? "does" : "do",
                                limit ? fmt::format(" in {} GiB", gibibytes(limit)) : ""));
  }
  for (const Series* row : facts.at_times) {
    texts.push_back(fmt::format("{} ran out of memory in {} of {} repeats",
                                quoted_if_unclear(row->name), out_of_memory_count(*row),
                                row->runs.size()));
  }
  for (const auto& [status, rows] : grouped(facts.unknown, &Series::status_text)) {
    texts.push_back(fmt::format("{}: {}", status, names_of(rows)));
  }
  return joined_texts(texts, "; ");
}

// --- memory ---

// "4xFSDP against 1 GPU: +62 ms a step = ...", and a line for memory.
Texts reasons(Rows rows) {
  constexpr size_t kMostShown = 4;
  Texts texts;
  for (const auto& [row, time, memory] : why_rows_differ(rows) | std::views::take(kMostShown)) {
    std::string names = fmt::format("{} against {}: ", quoted_if_unclear(row->name),
                                    quoted_if_unclear(row->baseline->name));
    if (time) texts.push_back(std::exchange(names, "") + time_change_text(*time));
    if (memory) texts.push_back(names + memory_change_text(*memory));
  }
  return texts;
}

// "offload takes least, 0.0625 GiB a rank"
std::string least_memory(const MemoryFacts& facts) {
  if (facts.measured.empty()) return "";
  const auto [least, most] = std::ranges::minmax(facts.least, {}, allocated_bytes);
  const std::string figure = gibibytes(allocated_bytes(least), allocated_bytes(most));
  if (facts.measured.size() == 1) return figure + " GiB a rank";
  if (facts.least.size() == facts.measured.size()) {
    return fmt::format("each row takes {} GiB a rank", figure);
  }
  return fmt::format("{} {} least, {} GiB a rank", names_of(facts.least),
                     facts.least.size() == 1 ? "takes" : "take", figure);
}

// --- speed ---

// "950 to 1000 tokens/s"
std::string range_of(const SeriesRows& from_fastest) {
  return range_text(short_number(speed_of(*from_fastest.back())),
                    short_number(speed_of(*from_fastest.front()))) +
         " tokens/s";
}

const char* why_none_ranked(Speed why) {
  switch (why) {
    case Speed::kOtherDevice:
      return "not compared, because the devices differ or are not known";
    case Speed::kOtherModel:
      return "not compared, because the models differ";
    default:
      return "not compared, because some rows are faster only if tokens that fill sequences up "
             "count";
  }
}

std::string ranked_rows(const SpeedFacts& facts) {
  if (facts.fastest.size() == facts.ranked.size()) return "no difference exceeds the noise";
  if (facts.fastest.size() > 1) {
    return fmt::format("{} are fastest, equal within noise: {}", names_of(facts.fastest),
                       range_of(facts.fastest));
  }
  return fmt::format("{} is fastest, {}; next {} {}, {}", names_of(facts.fastest),
                     range_of(facts.fastest), facts.next.size() == 1 ? "is" : "are",
                     names_of(facts.next), range_of(facts.next));
}

// "not compared: A and B (a busy host), C (3 steps)". Empty: no row is left out.
std::string rows_left_out(const SpeedFacts& facts) {
  SeriesRows rows = facts.disturbed;
  rows.insert(rows.end(), facts.too_few_steps.begin(), facts.too_few_steps.end());
  rows.insert(rows.end(), facts.at_times.begin(), facts.at_times.end());
  if (rows.empty()) return "";
  const auto why = [](const Series* row) {
    return fits(*row) ? doubt_of(*row) : std::string("out of memory at times");
  };
  const auto text = [&](const auto& alike) {
    const size_t count = alike.second.size();
    const bool are_all = count > 1 && count == facts.measured.size() + facts.at_times.size();
    return fmt::format("{} ({})", are_all ? fmt::format("all {}", count) : names_of(alike.second),
                       alike.first);
  };
  return "not compared: " + joined_texts(mapped(grouped(rows, why), text), ", ");
}

std::string speed_answer(const SpeedFacts& facts) {
  if (facts.measured.empty()) return "";
  if (facts.why_none_ranked) return why_none_ranked(*facts.why_none_ranked);
  std::string text = facts.ranked.empty() ? "" : ranked_rows(facts);
  if (facts.measured.size() == 1) {
    text = fmt::format("{}, {} ms a step", range_of(facts.measured),
                       three_digits(facts.measured.front()->median.step_time_ms_median));
  }
  return joined_texts({text, rows_left_out(facts)}, "; ");
}

}  // namespace

std::string names_of(Rows rows) {
  return names_in_words(
      mapped(rows, [](const Series* row) { return quoted_if_unclear(row->name); }));
}

std::vector<Answer> answers_for(Rows rows) {
  const auto is_started = [](const Series* series) {
    return series->median.attempt.has_value() || series->median.status != RunStatus::kPlanned;
  };
  if (std::ranges::none_of(rows, is_started)) return {};
  const MemoryFacts memory = memory_facts(rows);
  std::vector<Answer> answers;
  for (const std::string& text : largest_values(memory)) answers.push_back({"Fits", text});
  answers.push_back({"Fits", rows_that_fit_text(memory)});
  answers.push_back({"Memory", least_memory(memory)});
  answers.push_back({"Speed", speed_answer(speed_facts(rows))});
  for (const std::string& text : reasons(rows)) answers.push_back({"Why", text});
  answers.push_back({"Loss", loss_answer(loss_facts(rows), rows)});
  std::erase_if(answers, [](const Answer& answer) { return answer.text.empty(); });
  return answers;
}

}  // namespace fsdp
