// Compares runs key by key. A key counts unless its Effect, or a line below, says otherwise.
#include "trainer/checkpoint/basis.h"

#include <map>

#include "contract/families/adapters.h"
#include "contract/spec/run_spec_yaml.h"

namespace fsdp {
namespace {

using Keys = std::map<std::string, std::string>;

bool draws_from_seed(const RunSpec& spec, const ModelConfig& config) {
  return spec.data.shuffle || spec.optimizer.rounding == Rounding::kStochastic ||
         has_dropout(spec, config);
}

bool decays_to_the_end(ScheduleKind kind) {
  return kind == ScheduleKind::kLinear || kind == ScheduleKind::kCosine;
}

Keys default_keys() {
  Keys keys;
  for (const auto& [key, value] : keys_and_values(RunSpec())) keys.emplace(key, value);
  return keys;
}

Keys keys_of(const Basis& basis) {
  Keys keys = default_keys();
  for (const std::string& line : basis.keys) {
    const size_t equals = line.find('=');
    if (equals != line.npos) keys[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return keys;
}

// Returns `config` with the values that follow from others, as a config.json may name them or not.
// Without the range of initial weights, which a checkpoint replaces.
ModelConfig explicit_config(ModelConfig config) {
  config.head_dim = config.head_width();
  config.num_decoder_layers = config.num_decoder_layers.value_or(config.num_hidden_layers);
  config.scale_decoder_outputs = config.scale_decoder_outputs.value_or(config.tie_word_embeddings);
  config.initializer_range = ModelConfig().initializer_range;
  return config;
}

std::string text_of(const std::string& what, const std::string& was, const std::string& now) {
  return what + ' ' + was + "; the run's is " + now;
}

}  // namespace

Basis basis_of(const RunSpec& spec, const ModelConfig& config, int64_t steps) {
  RunSpec deciding = keys_of_losses(spec, config);
  deciding.model.config = explicit_config(config);
  if (spec.method != Method::kFull) deciding.lora.targets = adapted_names(config, spec.lora);
  if (!draws_from_seed(spec, config)) deciding.train.seed = RunSpec().train.seed;
  if (decays_to_the_end(spec.schedule.kind)) {
    deciding.schedule.decay_steps = spec.schedule.decay_steps.value_or(steps);
  }
  if (deciding.kernels == KernelSet::kAuto) deciding.kernels = KernelSet::kAten;
  deciding.train.steps = deciding.train.epochs = deciding.train.sequences = {};
  deciding.train.max_steps = {};
  Basis basis;
  for (const RunSpecKey& key : run_spec_keys()) {
    const bool decides =
        !key.effect || (key.effect == Effect::kLossesWithDropout && has_dropout(spec, config));
    if (decides && !key.is_path) basis.keys.push_back(key.name + '=' + key.yaml(deciding));
  }
  return basis;
}

std::string difference(const Basis& was, const Basis& now) {
  const Keys before = keys_of(was);
  const Keys after = keys_of(now);
  for (const RunSpecKey& key : run_spec_keys()) {
    const std::string& value = before.at(key.name);
    if (value == after.at(key.name)) continue;
    const bool needs_dropout = key.effect == Effect::kLossesWithDropout;
    return text_of(key.name + (needs_dropout ? " (dropout)" : ""), value, after.at(key.name));
  }
  for (const auto& [key, value] : before) {
    if (!after.contains(key)) return text_of(key, value, "not known to this version");
  }
  if (was.data != now.data) {
    return text_of("training data of other contents (data.train, data.tokenizer), digest", was.data,
                   now.data);
  }
  if (was.frozen_weights != now.frozen_weights && !was.frozen_weights.empty() &&
      !now.frozen_weights.empty()) {
    return text_of("frozen weights of other values (model.source, or train.seed), digest",
                   was.frozen_weights, now.frozen_weights);
  }
  return "";
}

}  // namespace fsdp
