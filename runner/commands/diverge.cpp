#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/whole_file.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/commands/run.h"
#include "runner/commands/two_runs.h"
#include "runner/diverge/difference_text.h"
#include "runner/diverge/first_difference.h"
#include "runner/store/run_files.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// If the losses part at a later step, steps in the middle are left out.
constexpr int64_t kMostFirstSteps = 32;
constexpr int64_t kStepsBeforeParting = 8;
constexpr int64_t kStepsIfEqual = 2;

struct DivergeArguments {
  std::array<std::string, 2> words;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;
  std::optional<int64_t> step;
  bool fp64 = false;
  bool rerun = false;
};

// One side of the comparison: a run of these results, or a folder of another program.
struct ComparedRun {
  std::string name;
  std::filesystem::path folder{};  // of fingerprints; empty: the run has to be trained
  std::optional<RunRecord> run{};
  RunSpec spec{};                                // of the run
  std::optional<CheckpointFolder> checkpoint{};  // that training again begins with
};

bool is_folder_of_fingerprints(const std::string& word) {
  std::error_code hidden;
  return std::filesystem::is_directory(word, hidden) && !fingerprinted_steps(word).empty();
}

// Returns the fingerprints of the run's newest attempt that has some. Empty if none has.
std::filesystem::path fingerprints_of(const RunRecord& run, const std::filesystem::path& results) {
  const RunPaths paths(results / run.folder);
  for (int attempt = run.attempt; attempt > 0; --attempt) {
    if (!fingerprinted_steps(paths.fingerprints(attempt)).empty()) {
      return paths.fingerprints(attempt);
    }
  }
  return {};
}

ComparedRun side_of(const std::string& word, const Store* store,
                    const DivergeArguments& arguments) {
  if (is_folder_of_fingerprints(word)) return {.name = word, .folder = word};
  if (store == nullptr) {
    throw ConfigError("", word,
                      "is no folder of fingerprints, and there are no results in " +
                          arguments.results.string() + " that may have a run of that name");
  }
  RunRecord run = find_run(*store, word);
  ComparedRun side{.name = quoted_if_unclear(run.point),
                   .folder = fingerprints_of(run, arguments.results),
                   .run = run,
                   .spec = store->spec(run.id)};
  // A step that was asked for and not recorded has to be trained again.
  const std::vector<int64_t> steps = fingerprinted_steps(side.folder);
  const bool is_missing = arguments.step && !std::ranges::binary_search(steps, *arguments.step);
  const bool is_narrower = arguments.fp64 && side.spec.precision.kind != PrecisionKind::kFp64;
  if (is_missing || is_narrower) side.folder.clear();
  return side;
}

// Refuses runs whose losses need not be equal.
void require_same_computation(const std::array<ComparedRun, 2>& sides, const LossesOfTwo& losses) {
  const std::string why = losses.why_not_compared();
  if (why.empty()) return;
  throw ConfigError("", "diverge",
                    fmt::format("{} and {} do not compute the same: {}; compare runs that differ "
                                "in strategy, ranks or the split of the total batch only",
                                sides[0].name, sides[1].name, why));
}

// The steps that are recorded again. Both runs begin with `first`, or with a later step.
struct Steps {
  int64_t first;
  int64_t last;

  // Returns train.fingerprint_steps.
  TextList items() const {
    const auto range = [](int64_t from, int64_t to) {
      return range_text(std::to_string(from), std::to_string(to), "-");
    };
    if (last - first < kMostFirstSteps) return {range(first, last)};
    return {range(first, first + kStepsIfEqual - 1), range(last - kStepsBeforeParting, last)};
  }
};

// Returns the run's specification with fingerprints, up to the last step. It writes nothing else.
RunSpec with_fingerprints(const ComparedRun& side, const Store& store, const Steps& steps,
                          bool fp64) {
  RunSpec spec = side.spec;
  const std::vector<RunStarted> ranks = store.rank_facts(side.run->id, side.run->attempt);
  const ScheduleKind kind = spec.schedule.kind;
  const bool has_end = kind == ScheduleKind::kLinear || kind == ScheduleKind::kCosine;
  const int64_t planned = ranks.empty() ? steps.last : ranks.front().steps_planned;
  // Keeps the learning rates of the whole run.
  if (has_end && !spec.schedule.decay_steps) spec.schedule.decay_steps = planned;
  spec.train.epochs.reset();
  spec.train.sequences.reset();
  spec.train.max_steps.reset();
  spec.train.steps = std::min(steps.last, planned);
  spec.train.fingerprint_steps = steps.items();
  spec.train.trace_steps = 0;
  spec.batch.total.reset();  // it follows from the other keys
  spec.checkpoint = {};
  if (side.checkpoint) {
    spec.resume = {};
    spec.resume.path = absolute(side.checkpoint->folder);
  }
  if (fp64) {
    spec.precision = {};
    spec.precision.kind = PrecisionKind::kFp64;
    spec.device = DeviceKind::kCpu;
  }
  spec.evaluation.every_steps.reset();
  spec.evaluation.each_epoch = false;
  return spec;
}

// Returns a point of an experiment. It has the keys that differ from the defaults only, because
// some keys exclude each other.
std::string point_text(const std::string& name, const RunSpec& spec) {
  std::string text = "  - name: ";
  append_json_string(text, name);
  text += '\n';
  for (const RunSpecKey& key : run_spec_keys()) {
    if (!key.is_equal(spec, RunSpec()))
      text += fmt::format("    {}: {}\n", key.name, key.yaml(spec));
  }
  return text;
}

// The run's name in the experiment that trains it again.
std::string point_of(const RunRecord& run) { return fmt::format("{} {}", run.id, run.point); }

std::filesystem::path answer_file(const std::array<ComparedRun, 2>& sides,
                                  const DivergeArguments& arguments) {
  const auto number_of = [](const ComparedRun& side) { return side.run ? side.run->id : 0; };
  return divergence_file(arguments.results, number_of(sides[0]), number_of(sides[1]));
}

// Keeps the answer for the page of reports. The results may not be writable.
void keep(const std::string& answer, const std::filesystem::path& file) {
  try {
    make_folder(file.parent_path().parent_path(), file.parent_path().filename());
    replace_file(file, answer);
  } catch (const std::exception& error) {
    std::cerr << "fsdp-run: the answer is not kept: " << visible_line(error.what()) << '\n';
  }
}

// Trains the sides that have no fingerprints, as an experiment of their own. Its results are in a
// folder of their own, so reports do not show them.
ExitCode train_again(std::array<ComparedRun, 2>& sides, const Store& store, const Steps& steps,
                     const DivergeArguments& arguments) {
  const std::filesystem::path answer = answer_file(sides, arguments);
  const std::string name =
      fmt::format("{}-{}{}", answer.stem().string(), steps.last, arguments.fp64 ? "-fp64" : "");
  std::string points;
  for (const ComparedRun& side : sides) {
    if (side.folder.empty()) {
      const RunSpec spec = with_fingerprints(side, store, steps, arguments.fp64);
      points += point_text(point_of(*side.run), spec);
    }
  }
  const std::filesystem::path results = answer.parent_path();
  make_folder(arguments.results, results.filename());
  RunArguments options;
  options.choice.file = results / (name + ".yaml");
  options.results = results;
  options.trainer = arguments.trainer;
  options.rerun = arguments.rerun;
  options.share = true;  // nothing is measured
  options.quiet = true;
  options.prints_table = false;
  replace_file(options.choice.file, "experiment: " + name + "\npoints:\n" + points);
  std::cerr << "fsdp-run: trains again" << (arguments.fp64 ? " in fp64" : "")
            << ", with fingerprints of steps " << joined(steps.items()) << '\n';
  const ExitCode code = run_experiment(options);
  if (code != ExitCode::kOk) return code;
  const Store trained = existing_results(results);
  for (ComparedRun& side : sides) {
    if (!side.folder.empty()) continue;
    side.folder = fingerprints_of(find_run(trained, name + '/' + point_of(*side.run)), results);
  }
  return code;
}

// Returns the run's newest checkpoint that lies before the steps that are recorded up to `last`.
std::optional<CheckpointFolder> checkpoint_before(const ComparedRun& side, int64_t last,
                                                  const std::filesystem::path& results) {
  for (CheckpointFolder& folder : list_checkpoint_folders(RunPaths(results / side.run->folder))) {
    const bool is_whole = folder.state != CheckpointFolder::State::kPartial;
    if (is_whole && folder.step <= last - kStepsBeforeParting) return std::move(folder);
  }
  return std::nullopt;
}

// Returns the first step after the checkpoints that the runs begin with.
int64_t first_step(const std::array<ComparedRun, 2>& sides, const Store& store) {
  int64_t first = 1;
  for (const ComparedRun& side : sides) {
    if (side.checkpoint) first = std::max(first, side.checkpoint->step + 1);
    const bool begins_with_one = side.run && !side.spec.resume.path.empty();
    if (!begins_with_one) continue;
    for (const RunStarted& rank : store.rank_facts(side.run->id, side.run->attempt)) {
      first = std::max(first, rank.resumed_from_step + 1);
    }
  }
  return first;
}

// Returns the steps to record, and chooses the checkpoints before them. fp64 begins anew, because
// checkpoints are rounded.
Steps steps_to_train(std::array<ComparedRun, 2>& sides, const Store& store,
                     const std::optional<LossesOfTwo>& losses, const DivergeArguments& arguments) {
  std::optional<int64_t> last = arguments.step;
  for (const ComparedRun& side : sides) {
    if (!last && !side.folder.empty()) last = fingerprinted_steps(side.folder).back();
  }
  if (!last) last = losses->parting_step();
  for (ComparedRun& side : sides) {
    const bool may_continue = last && side.folder.empty() && !arguments.fp64;
    if (may_continue) side.checkpoint = checkpoint_before(side, *last, arguments.results);
  }
  const int64_t first = first_step(sides, store);
  return {first, std::max(first, last.value_or(first + kStepsIfEqual - 1))};
}

// "1 to 3, 12 to 20"
std::string ranges_text(const std::vector<int64_t>& steps) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < steps.size();) {
    size_t end = i + 1;
    while (end < steps.size() && steps[end] == steps[end - 1] + 1) ++end;
    ranges.push_back(range_text(std::to_string(steps[i]), std::to_string(steps[end - 1])));
    i = end;
  }
  return joined(ranges);
}

// Quantities that were not compared, by the reason.
using Uncompared = std::map<std::string, std::set<Quantity>>;

// Adds what lies before a difference of this step. nullopt: there is none.
void add_uncompared(const std::array<StepFingerprints, 2>& now,
                    const std::array<ComparedRun, 2>& sides,
                    const std::optional<FirstDifference>& difference, Uncompared& found) {
  for (size_t i = 0; i < 2; ++i) {
    for (const Computed& each : now[i].computed) {
      if (each.of == Quantity::kRepeatedInput || (difference && each.of >= difference->of))
        continue;
      const Computed* same = now[1 - i].find(each.of, each.name, each.state, each.row);
      if (same == nullptr) {
        found["only " + sides[i].name + " has all of it"].insert(each.of);
      } else if (!each.sums.is_finite && !same->sums.is_finite) {
        found["it is NaN or infinite in both"].insert(each.of);
      }
    }
  }
}

std::string uncompared_text(const Uncompared& uncompared) {
  std::string text;
  for (const auto& [reason, quantities] : uncompared) {
    const auto names = mapped(quantities, [](Quantity of) { return std::string(name_of(of)); });
    text += fmt::format("  not compared, because {}: {}\n", reason,
                        joined({names.begin(), names.end()}));
  }
  return text;
}

struct ComparedSteps {
  std::string text;
  bool has_difference = false;
  int64_t last = 0;  // without a difference
};

// Compares the steps that both have, in order.
ComparedSteps compared(const std::array<ComparedRun, 2>& sides, std::optional<int64_t> only) {
  std::vector<int64_t> steps = fingerprinted_steps(sides[0].folder);
  const std::vector<int64_t> of_other = fingerprinted_steps(sides[1].folder);
  std::erase_if(steps, [&](int64_t step) {
    return !std::ranges::binary_search(of_other, step) || (only && step > *only);
  });
  if (steps.empty()) {
    throw std::runtime_error(fmt::format("{} and {} have no step with fingerprints in common",
                                         sides[0].name, sides[1].name));
  }
  std::vector<int64_t> equal;
  Uncompared uncompared;
  std::string notes;
  std::array<std::optional<StepFingerprints>, 2> before;
  for (const int64_t step : steps) {
    std::array<StepFingerprints, 2> now{read_step_fingerprints(sides[0].folder, step),
                                        read_step_fingerprints(sides[1].folder, step)};
    const bool is_next = before[0] && before[0]->step() + 1 == step;
    const auto side = [&](size_t i) {
      return StepOfRun{
          .run = sides[i].name, .step = now[i], .before = is_next ? &*before[i] : nullptr};
    };
    const auto found = first_difference(side(0), side(1));
    if (found && found->cause == Cause::kTooFar) {
      notes =
          fmt::format("  step {} and later ones cannot be judged: {}\n", step, cause_text(*found));
      break;
    }
    add_uncompared(now, sides, found, uncompared);
    if (found) {
      return {difference_text(*found, sides[0].name, sides[1].name) + uncompared_text(uncompared),
              true};
    }
    equal.push_back(step);
    before = {std::move(now[0]), std::move(now[1])};
  }
  const std::string names = fmt::format("{} and {}", sides[0].name, sides[1].name);
  notes = uncompared_text(uncompared) + notes;
  if (equal.empty()) return {fmt::format("{}:\n{}", names, notes)};
  return {.text = fmt::format("{} do not differ by more than rounding in {} {}\n{}", names,
                              equal.size() == 1 ? "step" : "steps", ranges_text(equal), notes),
          .last = equal.back()};
}

// Says what the answer means for the losses, and how to learn more.
std::string conclusion(const ComparedSteps& steps, std::optional<int64_t> parting, bool fp64) {
  const bool is_answered = steps.has_difference || steps.last > 0;
  if (fp64 && is_answered) {
    return std::string("  fp64   both were trained in it, so ") +
           (steps.has_difference ? "this is a fault\n" : "other differences are rounding\n");
  }
  if (steps.has_difference || !parting) return "";
  if (steps.last < *parting) {
    return fmt::format("  their losses part at step {}; compare it with --step {}\n", *parting,
                       *parting);
  }
  return fmt::format(
      "  their losses part at step {} all the same; --fp64 tells if it is rounding\n", *parting);
}

ExitCode diverge(const DivergeArguments& arguments) {
  std::unique_ptr<const Store> store;
  if (has_results(arguments.results)) store.reset(new Store(existing_results(arguments.results)));
  std::array<ComparedRun, 2> sides{side_of(arguments.words[0], store.get(), arguments),
                                   side_of(arguments.words[1], store.get(), arguments)};
  std::optional<LossesOfTwo> losses;  // if both are runs
  if (arguments.fp64 && !(sides[0].run && sides[1].run)) {
    throw ConfigError("", "--fp64", "trains both again, so both must be runs of these results");
  }
  if (sides[0].run && sides[1].run) {
    if (sides[0].run->id == sides[1].run->id) {
      throw ConfigError("", arguments.words[1], "is the same run; name another one");
    }
    losses.emplace(*store, *sides[0].run, *sides[1].run);
    require_same_computation(sides, *losses);
    if (sides[0].name == sides[1].name) {
      for (ComparedRun& side : sides) side.name = run_label(*side.run);
    }
  }
  if (sides[0].folder.empty() || sides[1].folder.empty()) {
    const ExitCode code =
        train_again(sides, *store, steps_to_train(sides, *store, losses, arguments), arguments);
    if (code != ExitCode::kOk) {
      std::cerr << "fsdp-run: nothing is compared, because a run did not end\n";
      return code;
    }
  }
  const ComparedSteps steps = compared(sides, arguments.step);
  const auto parting = losses ? losses->parting_step() : std::nullopt;
  const std::string text = steps.text + conclusion(steps, parting, arguments.fp64);
  std::cout << visible_lines(text);
  if (losses) keep(text, answer_file(sides, arguments));
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_diverge_command(CLI::App& command) {
  const auto arguments = std::make_shared<DivergeArguments>();
  command.footer(R"(Examples:
  fsdp-run diverge 4xDDP 4xFSDP
  fsdp-run diverge lab/4xDDP lab/4xFSDP --step 7
  fsdp-run diverge 4xDDP my_trainer/fingerprints)");
  command
      .add_option("RUN", arguments->words[0],
                  "A run: its number, its point, EXPERIMENT/POINT; or a folder of fingerprints")
      ->required();
  command.add_option("OTHER", arguments->words[1], "Another one")->required();
  command
      .add_option("--step", arguments->step, "Compare up to this step; default: where losses part")
      ->option_text("N")
      ->check(number_within(1, kMostSteps, "from 1 to 1000000000"));
  command.add_flag("--fp64", arguments->fp64,
                   "Train both again in fp64 on this host's CPUs: what then differs is a fault");
  command.add_flag("--rerun", arguments->rerun, "Train again, even if an earlier call did");
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return diverge(*arguments); };
}

}  // namespace fsdp
