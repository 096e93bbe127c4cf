// Checks that a run that goes on from a checkpoint has the losses of a whole run.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/files/scratch_folder.h"
#include "base/text/numbers.h"
#include "contract/record/event.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "trainer/self_test/self_test.h"
#include "trainer/train/trainer.h"

namespace fsdp {
namespace {

constexpr int64_t kStepsOfRun = 4;
constexpr int64_t kCheckpointStep = 2;

RunSpec spec_in(const std::filesystem::path& folder) {
  const std::filesystem::path tokens = folder / "tokens.bin";
  std::ofstream file(tokens, std::ios::binary);
  for (int i = 0; i < 8192; ++i) {
    const auto token = static_cast<uint16_t>(7919 * i % 512);
    file.write(reinterpret_cast<const char*>(&token), sizeof token);
  }
  file.close();
  return run_spec_from_yaml(
      "model: {config: {num_hidden_layers: 2, hidden_size: 256, intermediate_size: 688, "
      "num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 512, "
      "max_position_embeddings: 128}}\n"
      "data: {kind: tokens, train: " +
          tokens.string() +
          ", sequence_length: 128}\n"
          "batch: {size_per_rank: 2}\n"
          "precision: fp32\n"
          "train: {steps: " +
          std::to_string(kStepsOfRun) +
          ", warmup_steps_excluded: 0}\n"
          "evaluation: {every_steps: " +
          std::to_string(kCheckpointStep) +
          ", fraction: 0.2}\n"
          "checkpoint: {every_steps: " +
          std::to_string(kCheckpointStep) +
          ", keep: 2}\n"
          "resume: auto\n",
      {});
}

// The losses that an attempt reported, by step.
struct Reported {
  std::map<int64_t, double> losses;
  std::map<int64_t, double> validation_losses;
};

Reported train(const RunSpec& spec, const RunPaths& paths, int attempt, Backend& backend,
               ProcessGroup& group) {
  std::filesystem::create_directories(paths.attempt(attempt));
  const std::filesystem::path events = paths.events(attempt, 0);
  {
    EventWriter writer(events);
    Trainer(spec, paths, attempt, backend, group, writer).run();
  }
  Reported reported;
  std::ifstream lines(events);
  for (std::string line; std::getline(lines, line);) {
    const std::optional<Event> event = event_from_json_line(line);
    if (!event) continue;
    if (const auto* step = std::get_if<StepDone>(&event->body)) {
      reported.losses[step->step] = step->loss.value_or(NAN);
    } else if (const auto* done = std::get_if<EvaluationDone>(&event->body)) {
      reported.validation_losses[done->step] = done->loss.value_or(NAN);
    }
  }
  return reported;
}

// Compares the losses `found` after a resume with the losses `expected` of a whole run. `found`
// should have the steps after the checkpoint.
void compare(const std::string& name, const std::map<int64_t, double>& found,
             const std::map<int64_t, double>& expected, const ShowRow& show) {
  constexpr double kTolerance = 1e-3;  // a GPU may add in another order
  double difference = 0;
  std::string steps;
  for (const auto& [step, loss] : found) {
    difference = std::max(difference, std::abs(loss / expected.at(step) - 1));
    steps += ' ' + std::to_string(step);
  }
  const auto first = expected.upper_bound(kCheckpointStep);
  const bool are_same_steps =
      std::ranges::equal(found, std::ranges::subrange(first, expected.end()),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  show({name, "steps" + steps + " differ by " + with_exponent(difference, 0),
        "at most " + with_exponent(kTolerance, 0), are_same_steps && difference <= kTolerance});
}

}  // namespace

void check_runs(at::Device device, const ShowRow& show) {
  const ScratchFolder folder;
  const RunSpec spec = spec_in(folder.path());
  const RunPaths paths(folder.path());
  const auto backend = make_backend(device);
  const auto group = make_process_group({}, at::kCPU);
  const Reported whole = train(spec, paths, 1, *backend, *group);
  const bool is_whole = whole.losses.size() == kStepsOfRun && whole.validation_losses.size() == 2;
  show({"evaluation and checkpoints",
        std::to_string(whole.losses.size()) + " steps, " +
            std::to_string(whole.validation_losses.size()) + " evaluations",
        "4, 2", is_whole});
  std::filesystem::remove_all(paths.checkpoint(kStepsOfRun));
  const Reported rest = train(spec, paths, 2, *backend, *group);
  compare("resumed, losses", rest.losses, whole.losses, show);
  compare("resumed, evaluation", rest.validation_losses, whole.validation_losses, show);
}

}  // namespace fsdp
