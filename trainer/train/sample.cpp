// Generates text with a trained model. The forward is an evaluation of one row, whose last position
// alone has a label: so it is the code that training and evaluation run.
#include "trainer/train/sample.h"

#include <array>
#include <memory>

#include "base/text/config_error.h"
#include "formats/data/prepare.h"
#include "formats/data/prompt.h"
#include "formats/inputs/inputs.h"
#include "trainer/backend/make_kernels.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/step/training_step.h"
#include "trainer/train/frozen_digest.h"
#include "trainer/train/resume.h"
#include "trainer/train/weights.h"

namespace fsdp {
namespace {

// Kernels that keep the most likely token of each position.
class GreedyKernels : public AtenKernels {
 public:
  using AtenKernels::AtenKernels;

  at::Tensor evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                    at::Tensor loss_C1) override {
    likeliest_C1_ = AtenKernels::evaluate_cross_entropy(std::move(logits_CV), labels_C1, loss_C1);
    return likeliest_C1_;
  }

  // Of the last position, which is in the last chunk.
  at::Tensor last_likeliest() const { return likeliest_C1_[-1]; }

 private:
  at::Tensor likeliest_C1_;
};

at::Tensor row_of(const std::vector<int32_t>& ids, at::Device device) {
  return at::tensor(ids, at::kLong).to(device).unsqueeze_(0);
}

// The batch whose last position predicts the token after `answer`.
Batch batch_of(const ModelConfig& config, const std::vector<int32_t>& prompt,
               const std::vector<int32_t>& answer, at::Device device) {
  Batch batch;
  batch.lengths_vary = true;
  const bool has_encoder = config.num_decoder_layers.has_value();
  std::vector<int32_t> read = prompt;
  if (has_encoder) read = {static_cast<int32_t>(config.decoder_start_token_id)};
  read.insert(read.end(), answer.begin(), answer.end());
  batch.input_ids_BT = row_of(read, device);
  batch.labels_BT = at::full_like(batch.input_ids_BT, kNoLabel);
  batch.labels_BT.select(1, -1).fill_(0);
  if (has_encoder) {
    batch.decoder_input_ids_BT = std::exchange(batch.input_ids_BT, row_of(prompt, device));
    batch.input_counts_B = at::full({1}, static_cast<int64_t>(prompt.size()),
                                    at::TensorOptions(at::kLong).device(device));
  }
  return batch;
}

void require_same_frozen_weights(const CheckpointReader& checkpoint, const FrozenDigest& digest,
                                 ProcessGroup& world) {
  const std::optional<Basis>& basis = checkpoint.state().basis;
  if (!basis || basis->frozen_weights.empty()) return;
  const std::string now = digest.of_all(world, /*is_counted=*/true);
  if (now == basis->frozen_weights) return;
  throw ConfigError(checkpoint.folder().string(), "model.source",
                    "has other weights than those that the checkpoint's adapters were trained for; "
                    "put the files of the run back");
}

// What `ids` add to the text of `before`.
std::string text_after(const Tokenizer& tokenizer, std::vector<int32_t> before,
                       const std::vector<int32_t>& ids) {
  const std::string begin = tokenizer.decode(before);
  before.insert(before.end(), ids.begin(), ids.end());
  const std::string whole = tokenizer.decode(before);
  return whole.starts_with(begin) ? whole.substr(begin.size()) : tokenizer.decode(ids);
}

}  // namespace

std::string sample(const RunSpec& spec, const RunPaths& paths, at::Device device,
                   ProcessGroup& world, const std::string& prompt_text, int64_t tokens) {
  const DataSource source = data_source(spec, training_file(spec.data));
  const auto tokenizer = open_tokenizer(source.tokenizer);
  const Prompt prompt = make_prompt(source.data, *tokenizer, chat_template_of(source), prompt_text);
  const Resumed resumed = newest_whole_checkpoint(paths, world);
  if (!resumed.reader) {
    throw ConfigError(paths.checkpoints().string(), "checkpoint",
                      "the run has written none; give it checkpoint.at_end: true");
  }

  const ModelConfig config = model_config(spec);
  auto owned_kernels = std::make_unique<GreedyKernels>(device.type(), capability_of(device).major);
  const GreedyKernels& kernels = *owned_kernels;
  Backend backend(device, device.type(), make_streams(device), std::move(owned_kernels),
                  make_memory_probe(device));
  const Mesh mesh(spec.strategy, world);
  FrozenDigest digest;
  TrainingStep step(spec, config, backend, mesh, world,
                    with_digest(weights_of(spec, resumed.reader.get()), digest));
  require_same_frozen_weights(*resumed.reader, digest, world);

  std::vector<int32_t> answer;
  while (std::ssize(answer) < tokens) {
    backend.read(step.evaluate(batch_of(config, prompt.ids, answer, device))[0]);
    const auto id = static_cast<int32_t>(kernels.last_likeliest().item<int64_t>());
    if (id == prompt.end || id == tokenizer->ends().end) break;
    answer.push_back(id);
  }
  const bool has_encoder = config.num_decoder_layers.has_value();
  return text_after(*tokenizer, has_encoder ? std::vector<int32_t>() : prompt.ids, answer);
}

}  // namespace fsdp
