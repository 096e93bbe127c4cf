// Names the file of a calibration, and says why one does not fit a run.
#include "contract/plan/calibration.h"

#include "base/files/digest.h"
#include "base/text/json.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

// The layers of the measured model. More layers would repeat the same blocks.
constexpr int64_t kDepth = 2;

}  // namespace

std::string calibration_identity(const RunSpec& spec, const ModelConfig& config) {
  ModelConfig model = config;
  model.num_hidden_layers = kDepth;
  if (model.num_decoder_layers) model.num_decoder_layers = kDepth;
  OptimizerSpec optimizer = spec.optimizer;
  optimizer.learning_rate = OptimizerSpec().learning_rate;
  optimizer.in_backward = false;
  optimizer.gradient_clip_norm.reset();
  LoraSpec lora = spec.method == Method::kFull ? LoraSpec() : spec.lora;
  lora.alpha = LoraSpec().alpha;
  lora.use_rslora = false;
  lora.adapter.clear();
  const bool is_checkpointed = spec.activation_checkpointing.every > 0;
  return text_digest(
      JsonObject()
          .add("model", model)
          .add("method", spec.method)
          .add("lora", lora)
          .add("optimizer", optimizer)
          .add("precision", spec.precision)
          .add("recomputed", is_checkpointed
                                 ? std::string(name_of(spec.activation_checkpointing.what))
                                 : std::string())
          .add("lengths", std::vector<int64_t>{spec.data.sequence_length, spec.data.input_length,
                                               spec.data.target_length})
          .add("rows", spec.data.rows)
          .add("device", spec.device)
          .add("kernels", spec.kernels)
          .add("ranks", spec.strategy.ranks)
          .add("shard_group_size", spec.strategy.shard_group_size)
          .add("offloads", spec.strategy.offload != Offload::kNone)
          .add("threads", spec.threads_per_rank)
          .add("bind", spec.bind)
          .add("environment", spec.environment)
          .add("deterministic", spec.train.deterministic)
          .text());
}

std::string calibration_misfit(const Calibration& found, const Calibration& wanted) {
  const auto differs = [](const std::string& what, const std::string& other) {
    return "was measured " + what + ", not " + other;
  };
  if (found.device != wanted.device) {
    return differs("on '" + found.device + "'", "on '" + wanted.device + "'");
  }
  if (found.libtorch != wanted.libtorch) {
    return differs("with libtorch " + found.libtorch, wanted.libtorch);
  }
  if (found.ranks != wanted.ranks) {
    return differs("by " + counted(found.ranks, "rank"), "by " + std::to_string(wanted.ranks));
  }
  if (wanted.threads != 0 && found.threads != wanted.threads) {
    return differs("with " + counted(found.threads, "thread") + " a rank",
                   std::to_string(wanted.threads));
  }
  return "";
}

std::filesystem::path calibration_folder(const std::filesystem::path& results,
                                         const std::string& identity) {
  return results / "calibrations" / identity;
}

std::filesystem::path calibration_file(const std::filesystem::path& results,
                                       const std::string& identity, const std::string& device,
                                       const std::string& libtorch) {
  return calibration_folder(results, identity) /
         (safe_file_name(device + " libtorch " + libtorch) + ".json");
}

}  // namespace fsdp
