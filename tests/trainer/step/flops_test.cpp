// Compares the reported floating point operations with a step's products, on meta tensors.
#include "contract/families/flops.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <catch2/catch.hpp>

#include "contract/families/family.h"
#include "contract/spec/run_spec.h"
#include "contract/spec/run_spec_yaml.h"
#include "tests/trainer/small_decoder.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/step/training_step.h"
#include "trainer/strategy/precision.h"

namespace fsdp::flops_test {

constexpr int64_t kRows = 2;
constexpr int64_t kTokens = 32;
constexpr int64_t kDecoderTokens = 20;

// Counts all products during its lifetime, by the shapes that libtorch's observers see. Attention
// gets all pairs of tokens; causal attention counts half. Its backward counts as two forwards.
class CountedFlops {
 public:
  CountedFlops()
      : callback_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(
                [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
                  count(function);
                  return nullptr;
                })
                .needsInputs(true)
                .scopes({at::RecordScope::FUNCTION}))) {
    linear_ = attention_ = 0;
    not_counted_.clear();
  }
  ~CountedFlops() { at::removeCallback(callback_); }
  CountedFlops(const CountedFlops&) = delete;
  CountedFlops& operator=(const CountedFlops&) = delete;

  static double linear() { return linear_; }
  static double attention() { return attention_; }
  static double total() { return linear_ + attention_; }
  static const std::string& not_counted() { return not_counted_; }

 private:
  static void count(const at::RecordFunction& function) {
    const std::string_view name = function.name();
    const auto tensor = [&](size_t i) { return function.inputs()[i].toTensor(); };
    if (name == "aten::addmm" || name == "mkldnn_matmul") {
      const size_t first = name == "aten::addmm" ? 1 : 0;
      const at::Tensor a = tensor(first);
      linear_ += 2.0 * static_cast<double>(a.numel() * tensor(first + 1).size(1));
    } else if (name == "flash_attention") {
      const bool is_backward = function.inputs().size() > 3;  // its output's gradient is an input
      const at::Tensor q_BHTW = tensor(is_backward ? 1 : 0);
      add_attention(q_BHTW.numel() * q_BHTW.size(2), is_backward, /*is_causal=*/true);
    } else if (name.starts_with("biased_attention")) {
      const int64_t keys = tensor(1).size(1);
      add_attention(tensor(0).numel() * keys, name.ends_with("_backward"), keys == kDecoderTokens);
    } else if (name.find("mm") != name.npos || name.find("attention") != name.npos) {
      not_counted_ = name;
    }
  }

  static void add_attention(int64_t products, bool is_backward, bool is_causal) {
    attention_ += 4 * static_cast<double>(products) * (is_backward ? 2 : 1) / (is_causal ? 2 : 1);
  }

  at::CallbackHandle callback_;
  static inline double linear_;
  static inline double attention_;
  static inline std::string not_counted_;
};

ModelConfig decoder(const std::string& architecture) {
  ModelConfig config = small_decoder(5, 100);
  config.architecture = architecture;
  config.head_dim = 24;
  return config;
}

ModelConfig encoder_decoder(FeedForward feed_forward, bool is_tied) {
  return {.architecture = "T5ForConditionalGeneration",
          .num_hidden_layers = 3,
          .hidden_size = 64,
          .intermediate_size = 96,
          .num_attention_heads = 4,
          .head_dim = 20,
          .vocab_size = 100,
          .tie_word_embeddings = is_tied,
          .num_decoder_layers = 4,
          .feed_forward_proj = feed_forward,
          .dropout_rate = 0.1};
}

bool has_encoder(const ModelConfig& config) {
  return family_of(config).structure == ModelStructure::kEncoderDecoder;
}

BatchShape shape_of(const ModelConfig& config) {
  return {
      .rows = kRows, .tokens = kTokens, .decoder_tokens = has_encoder(config) ? kDecoderTokens : 0};
}

Batch meta_batch(const ModelConfig& config) {
  const auto tokens = at::TensorOptions(at::kLong).device(at::kMeta);
  const auto ids = [&](int64_t length) { return at::empty({kRows, length}, tokens); };
  if (!has_encoder(config)) return {.input_ids_BT = ids(kTokens), .labels_BT = ids(kTokens)};
  return {.input_ids_BT = ids(kTokens),
          .labels_BT = ids(kDecoderTokens),
          .decoder_input_ids_BT = ids(kDecoderTokens),
          .input_counts_B = at::empty({kRows}, tokens)};
}

// Runs a step of two micro-batches and returns its operations.
double flops_of_step(const RunSpec& spec) {
  const ModelConfig& config = spec.model.config;
  MirrorGroup world(1);
  const Mesh mesh(spec.strategy, world);
  const auto meta = make_meta_backend(at::kCPU);
  TrainingStep step(spec, config, *meta, mesh, world, {});
  std::vector<Batch> micro_batches(2, meta_batch(config));
  const CountedFlops counted;
  step.run(1, micro_batches, 0.1, 0.0, [] {});
  CHECK(counted.not_counted().empty());
  CHECK(counted.linear() > counted.attention());
  CHECK(counted.attention() > 0);
  return counted.total();
}

void check_flops(const RunSpec& spec) {
  const ForwardFlops forward = forward_flops(spec.model.config, shape_of(spec.model.config));
  INFO(differences_from_default(spec));
  const double counted = flops_of_step(spec);
  CHECK(counted == 2 * hardware_flops(forward, spec.activation_checkpointing));
  if (spec.activation_checkpointing.every == 0) CHECK(counted == 2 * model_flops(forward));
}

TEST_CASE("of every family, whatever is recomputed, they are those of the products of a step") {
  std::vector<ModelConfig> configs = {decoder("LlamaForCausalLM"),
                                      decoder("Qwen2ForCausalLM"),
                                      decoder("Qwen3ForCausalLM"),
                                      decoder("MistralForCausalLM"),
                                      encoder_decoder(FeedForward::kRelu, true),
                                      encoder_decoder(FeedForward::kGatedGelu, false)};
  configs.push_back(configs.front());
  configs.back().tie_word_embeddings = true;
  for (const ModelConfig& config : configs) {
    RunSpec spec;
    spec.model.config = config;
    spec.batch.gradient_accumulation_steps = 2;
    check_flops(spec);
    for (const CheckpointedPart part :
         {CheckpointedPart::kBlock, CheckpointedPart::kMlp, CheckpointedPart::kAttention}) {
      for (const int64_t every : {1, 2, 3, 9}) {
        spec.activation_checkpointing = {.every = every, .what = part};
        check_flops(spec);
      }
    }
  }
}

TEST_CASE("with adapters, the repeat leaves out what no backward reads, as reported") {
  for (const ModelConfig& config :
       {decoder("LlamaForCausalLM"), encoder_decoder(FeedForward::kGatedGelu, false)}) {
    for (const char* targets : {"all-linear", "attention"}) {
      RunSpec spec;
      spec.model.config = config;
      spec.method = Method::kLora;
      spec.lora.targets = {targets};
      spec.batch.gradient_accumulation_steps = 2;
      const double plain = flops_of_step(spec);
      spec.activation_checkpointing = {.every = 1, .what = CheckpointedPart::kBlock};
      const ForwardFlops forward = forward_flops(config, shape_of(config), spec.method, spec.lora);
      const double repeated =
          hardware_flops(forward, spec.activation_checkpointing) - model_flops(forward);
      CHECK(flops_of_step(spec) - plain == 2 * repeated);
    }
  }
}

TEST_CASE("products are computed in the type that peaks are taken of") {
  const auto check = [](const PrecisionSpec& precision) {
    CHECK(scalar_type_of(precision.compute()) == dtypes_of(precision).compute);
  };
  for (const PrecisionKind kind : {PrecisionKind::kFp32, PrecisionKind::kBf16True,
                                   PrecisionKind::kBf16Mixed, PrecisionKind::kFp16Mixed}) {
    PrecisionSpec precision;
    precision.kind = kind;
    check(precision);
    precision.gradients = Dtype::kFp32;
    check(precision);
    for (std::optional<Dtype>* member :
         {&precision.buffers, &precision.reduction, &precision.parameters}) {
      *member = Dtype::kFp16;
      check(precision);
    }
  }
}

}  // namespace fsdp::flops_test
