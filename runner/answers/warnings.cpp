// Finds problems of a comparison. Each warning has a remedy.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "runner/answers/answers.h"
#include "runner/series/speeds.h"
#include "runner/store/quantile.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// Returns the largest interquartile range of step times, as a part of the median, that is not
// noisy. GPUs do the same work in the same time, to a few percent. On CPUs, ranks share cores with
// each other and with the system: the four ranks of experiments/lab.yaml had 4 to 26 % on two
// cores.
double noise_allowed(const ComparisonRow& run) {
  return run.spec.device == DeviceKind::kCuda ? 0.2 : 0.5;
}

// Returns the started runs with a loss. Leaves out experiments with `compare: throughput`.
Runs runs_compared_by_loss(Rows rows) {
  return only(started_runs(rows),
              [](auto* run) { return run->compare != "throughput" && run->has_losses(); });
}

// A warning names at most this many rows, so that it takes at most three lines.
constexpr size_t kMostNamed = 3;

std::string names_of(const Runs& runs) {
  return first_names(mapped(runs, &ComparisonRow::point), kMostNamed);
}

// Names runs with a text about each: "4xDDP (3 of 10)". Leaves out runs with an empty text.
template <typename TextOf>
std::string named_with(const Runs& runs, TextOf text_of) {
  std::vector<std::string> names;
  for (const ComparisonRow* run : runs) {
    const std::string text = text_of(*run);
    if (!text.empty()) names.push_back(run->point + ' ' + text);
  }
  return first_names(names, kMostNamed - 1);
}

// --- figures that differ between rows ---

// "1 GPU: a1b2; 4xDDP, 4xFSDP: c3d4" if runs have different values. Missing values do not count.
template <Runs (*runs_of)(Rows), auto value_of>
std::string different(Rows rows) {
  constexpr size_t kMostShown = 3;
  auto by_value = grouped(runs_of(rows), [](const ComparisonRow* run) {
    return std::string(std::invoke(value_of, *run));
  });
  std::erase_if(by_value, [](const auto& alike) { return alike.first.empty(); });
  if (by_value.size() < 2) return "";
  std::vector<std::string> texts;
  for (const auto& [value, runs] : by_value | std::views::take(kMostShown)) {
    texts.push_back(names_of(runs) + ": " + value);
  }
  if (by_value.size() > kMostShown) {
    texts.push_back(fmt::format("and {} others", by_value.size() - kMostShown));
  }
  return joined_texts(texts, "; ");
}

std::string short_digest(const std::string& digest) { return digest.substr(0, 8); }

std::string commit(const ComparisonRow& run) {
  if (run.git_commit.empty()) return "";
  return short_digest(run.git_commit) + (run.git_dirty.value_or(false) ? " with changes" : "") +
         (run.git_untracked.value_or(false) ? ", experiment file untracked" : "");
}

std::string trainer(const ComparisonRow& run) { return short_digest(run.trainer_digest); }

std::string versions(const ComparisonRow& run) {
  if (run.torch_version.empty()) return "";
  std::string text = "torch " + run.torch_version;
  if (!run.cuda_version.empty()) text += ", CUDA " + run.cuda_version;
  if (!run.driver_version.empty()) text += ", driver " + run.driver_version;
  return text;
}

std::string data(const ComparisonRow& run) { return short_digest(run.data_digest); }

std::string total_batch(const ComparisonRow& run) {
  return std::to_string(run.spec.batch.total.value_or(0));
}

std::string steps(const ComparisonRow& run) {
  return run.steps_planned ? std::to_string(*run.steps_planned) : "";
}

// --- rows with problems ---

std::string lost_events(Rows rows) {
  const Runs runs = only(started_runs(rows), [](auto* run) { return run->skipped_lines != 0; });
  if (runs.empty()) return "";
  double lines = 0;
  for (const ComparisonRow* run : runs) lines += static_cast<double>(run->skipped_lines);
  return fmt::format("{:.0f} line{}", lines, lines == 1 ? "" : "s") +
         " of the ranks' reports could not be read, so figures are incomplete: " + names_of(runs);
}

std::string losses_disagree(Rows rows) {
  const auto text = [](const FigureOfRun& one) {
    return one.run->point + ' ' + loss_in_words(one.value);
  };
  std::vector<std::string> found;
  for (const LossAgreement& agreement : loss_agreements(rows)) {
    if (!agreement.parting) continue;
    const StepDifference& parting = *agreement.parting;
    found.push_back(fmt::format("{}, {} ({}step {})", text(parting.least), text(parting.greatest),
                                parting.is_of_loss ? "" : "gradient norm, ", parting.step));
  }
  return first_names(found, kMostNamed);
}

std::string nothing_trained(Rows rows) {
  return names_of(
      only(finished_runs(rows), [](auto* run) { return run->trained_tokens_per_second == 0.0; }));
}

std::string skipped_steps(Rows rows) {
  return named_with(started_runs(rows), [](const ComparisonRow& run) {
    const int64_t skipped = run.skipped_steps.value_or(0);
    return skipped == 0 ? "" : fmt::format("({} of {})", skipped, run.steps.value_or(0));
  });
}

std::string few_steps(Rows rows) {
  const Runs runs = only(finished_runs(rows), [](auto* run) {
    return run->step_time_ms_median && measured_steps(*run) < kLeastMeasuredSteps;
  });
  if (runs.empty()) return "";
  return fmt::format("{} steps after the warm-up: {}", kLeastMeasuredSteps, names_of(runs));
}

std::string noisy_step_times(Rows rows) {
  return names_of(only(finished_runs(rows), [](auto* run) {
    if (!run->step_time_ms_p25 || !run->step_time_ms_p75) return false;
    const double spread = *run->step_time_ms_p75 - *run->step_time_ms_p25;
    return spread > noise_allowed(*run) * run->step_time_ms_median.value_or(0);
  }));
}

// "41 % of the CPU time while ranks waited for a CPU: 4xDDP"
std::string busy_host(Rows rows) {
  const Runs runs = only(finished_runs(rows), [](auto* run) { return was_disturbed(*run); });
  if (runs.empty()) return "";
  const double most =
      std::ranges::max(mapped(runs, [](auto* run) { return *run->cpu_time_others_percent; }));
  return fmt::format("{} % of the CPU time while ranks waited for a CPU: {}", whole_percent(most),
                     names_of(runs));
}

std::string other_processes(Rows rows) {
  return names_of(
      only(started_runs(rows), [](auto* run) { return run->other_processes.value_or(0) != 0; }));
}

std::string resumed(Rows rows) {
  return named_with(started_runs(rows), [](const ComparisonRow& run) {
    return is_resumed(run) ? fmt::format("from step {}", *run.resumed_from_step) : "";
  });
}

// True if the middle half of the finished repeats' step times is wider than noise_allowed().
bool repeats_vary(const Series& series) {
  std::vector<double> times = figures_of(series, &AttemptSummary::step_time_ms_median);
  if (series.finished_count < 2 || times.size() < 2) return false;
  const double spread = quantile(times, 0.75) - quantile(times, 0.25);
  return spread > noise_allowed(series.median) * quantile(times, 0.5);
}

std::string repeats_differ(Rows rows) {
  std::vector<std::string> names;
  for (const Series* series : rows) {
    const bool mixed = series->finished_count > 0 && series->finished_count < series->runs.size();
    if (mixed) {
      names.push_back(fmt::format("{} ({})", series->median.point, series->status_text()));
    } else if (repeats_vary(*series)) {
      names.push_back(series->median.point + " (step times)");
    }
  }
  return first_names(names, kMostNamed);
}

// --- runs at the same time ---

// Expands "n[1-2,07],m" to n1, n2, n07, m. Does not fully expand lists longer than any cluster's.
std::set<std::string> names_in(const std::string& node_list) {
  static const std::regex part(R"(([^,\[]+)(?:\[([^\]]*)\]([^,]*))?)");
  static const std::regex numbers(R"((\d{1,9})(?:-(\d{1,9}))?)");
  constexpr size_t kLongestList = 8'192;
  constexpr size_t kMostNodes = 65'536;
  if (node_list.size() > kLongestList) return {node_list};
  const std::sregex_iterator none;
  std::set<std::string> names;
  for (std::sregex_iterator found(node_list.begin(), node_list.end(), part); found != none;
       ++found) {
    const std::string before = (*found)[1], within = (*found)[2], after = (*found)[3];
    if (within.empty()) names.insert(before);
    for (std::sregex_iterator range(within.begin(), within.end(), numbers); range != none;
         ++range) {
      const std::string first = (*range)[1];
      const int64_t last = std::stoll((*range)[2].matched ? (*range)[2].str() : first);
      for (int64_t number = std::stoll(first); number <= last && names.size() < kMostNodes;
           ++number) {
        names.insert(fmt::format("{}{:0{}}{}", before, number, first.size(), after));
      }
    }
  }
  return names;
}

// Returns the positions in `runs` of runs with a known time, by node.
std::map<std::string, std::vector<size_t>> runs_on_nodes(const Runs& runs) {
  std::map<std::string, std::vector<size_t>> on_nodes;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]->started_unix_ms || !runs[i]->total_time_ms) continue;
    std::set<std::string> nodes = names_in(runs[i]->node_list);
    if (!runs[i]->host.empty()) nodes.insert(runs[i]->host);
    for (const std::string& node : nodes) on_nodes[node].push_back(i);
  }
  return on_nodes;
}

std::string side_by_side(Rows rows) {
  const Runs runs = finished_runs(rows);
  const auto start = [&](size_t i) { return static_cast<double>(*runs[i]->started_unix_ms); };
  std::set<std::pair<size_t, size_t>> pairs;
  for (auto& [node, on_node] : runs_on_nodes(runs)) {
    std::ranges::sort(on_node, {}, start);
    for (auto one = on_node.begin(); one != on_node.end(); ++one) {
      const double end = start(*one) + static_cast<double>(*runs[*one]->total_time_ms);
      for (auto other = one + 1; other != on_node.end() && start(*other) < end; ++other) {
        pairs.insert(std::minmax(*one, *other));
      }
    }
  }
  return first_names(mapped(pairs,
                            [&](const auto& pair) {
                              return runs[pair.first]->point + " and " + runs[pair.second]->point;
                            }),
                     kMostNamed - 1);
}

struct Check {
  const char* name;
  std::string (*what)(Rows rows);  // empty: nothing to say
  const char* text;                // with {} for the finding, and a remedy
};

constexpr Check kChecks[] = {
    {"different_commit", different<started_runs, commit>,
     "rows are of different commits ({}); run them again from one commit, with --rerun"},
    {"different_trainer", different<started_runs, trainer>,
     "rows are of different builds of the trainer ({}); run them again with one build, with "
     "--rerun"},
    {"different_versions", different<started_runs, versions>,
     "rows used different libraries ({}); run them again with one installation, with --rerun"},
    {"different_device", different<started_runs, &ComparisonRow::device_name>,
     "rows ran on different devices ({}); use --rerun on one kind, or tell them apart with --group "
     "device_name"},
    {"different_data", different<started_runs, data>,
     "rows read different input files (digests: {}); give all rows the same, or tell them apart "
     "with --group data_digest"},
    {"different_total_batch", different<runs_compared_by_loss, total_batch>,
     "total batches differ ({}), so losses are not comparable; set one batch.total, or compare: "
     "throughput at the experiment's top"},
    {"different_steps", different<runs_compared_by_loss, steps>,
     "numbers of steps differ ({}), so last losses are not comparable; set one train.steps, or "
     "compare: throughput at the experiment's top"},
    {"lost_events", lost_events, "{}; run these again with --rerun"},
    {"losses_disagree", losses_disagree,
     "losses or gradient norms that must be equal differ by more than rounding can cause: {}; use "
     "--rerun. If they differ again, `fsdp-run diverge RUN OTHER` names the first difference"},
    {"nothing_trained", nothing_trained,
     "no token was trained on, so a loss of 0 means nothing: {}; `fsdp-run prepare` counts such "
     "tokens. If documents are cut before them, raise data.sequence_length"},
    {"skipped_steps", skipped_steps,
     "steps with a non-finite loss or gradient changed nothing: {}; lower "
     "optimizer.learning_rate, or set precision: bf16 (in fp16 some are normal)"},
    {"few_steps", few_steps,
     "step times come from fewer than {}; train longer (train.steps, train.sequences)"},
    {"noisy_step_times", noisy_step_times,
     "step times vary a lot within a run: {}; end other programs on the host, and use more steps "
     "or --repeats 5"},
    {"busy_host", busy_host, "other processes took up to {}; end them, then use --rerun"},
    {"other_processes", other_processes,
     "other processes were on a GPU when these runs began: {}; end them (nvidia-smi shows them) or "
     "choose other GPUs with --gpus, then use --rerun"},
    {"side_by_side", side_by_side,
     "runs at the same time on a node disturb each other: {}; set slurm.exclusive or slurm.mode: "
     "allocation, or --max-parallel 1"},
    {"resumed", resumed,
     "times and memory cover only the steps after a checkpoint: {}; --rerun trains from the "
     "beginning"},
    {"repeats_differ", repeats_differ,
     "repeats of one point differ: {}; --per-run shows each; run those that failed again"},
};

// Returns the persons whose results the rows are.
std::set<std::string> persons_of(Rows rows) {
  std::set<std::string> persons;
  for (const Series* series : rows) persons.insert(person_of(series->median));
  return persons;
}

// Returns a check's findings in all groups: "4xDDP (alice, bob); 4xDDP, 4xFSDP (carol)", "4xDDP
// (everybody)"; no names if all rows ran here.
std::string findings_of(const Check& check, const std::vector<SeriesRows>& groups,
                        const std::set<std::string>& everybody) {
  const bool is_merged = everybody != std::set<std::string>{"here"};
  std::vector<std::string> texts;
  for (const auto& [what, alike] : grouped(groups, check.what)) {
    if (what.empty()) continue;
    std::set<std::string> persons;
    for (const SeriesRows& rows : alike) persons.merge(persons_of(rows));
    const bool is_of_all = everybody.size() > 1 && persons.size() == everybody.size();
    const std::string names = is_of_all ? "everybody" : joined_names(persons);
    texts.push_back(what + (is_merged ? fmt::format(" ({})", names) : ""));
  }
  return joined_texts(texts, "; ");
}

}  // namespace

std::vector<Warning> warnings_for(const std::vector<SeriesRows>& groups) {
  std::set<std::string> everybody;
  for (const SeriesRows& rows : groups) everybody.merge(persons_of(rows));
  std::vector<Warning> warnings;
  for (const Check& check : kChecks) {
    const std::string findings = findings_of(check, groups, everybody);
    if (findings.empty()) continue;
    warnings.push_back(
        {.name = check.name, .text = fmt::format(fmt::runtime(check.text), findings)});
  }
  return warnings;
}

}  // namespace fsdp
