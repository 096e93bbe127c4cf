// Modules and a strategy that tell the recorder what passes through them, and change nothing.
#include <algorithm>

#include "trainer/fingerprint/recorder.h"

namespace fsdp {
namespace {

class WatchedModule : public Module {
 public:
  WatchedModule(std::unique_ptr<Module> module, FingerprintRecorder& recorder)
      : Module(*module), module_(std::move(module)), recorder_(recorder) {}

  void forward(Pass& pass) override {
    const bool is_watched = recorder_.is_recording() && pass.tape.wants_gradients();
    if (!is_watched) return module_->forward(pass);
    if (pass.tape.is_repeating()) {
      record_inputs(pass);
    } else {
      record_weights(Quantity::kForwardWeight, pass.batch);
    }
    const Names before = names_of(pass.activations);
    module_->forward(pass);
    const std::vector<std::string> outputs = outputs_of(pass.activations, before);
    if (!pass.tape.is_repeating()) record_outputs(pass, outputs);
    record_backward(pass, outputs);
  }

 private:
  using Names = std::vector<std::string>;

  static Names names_of(const Activations& activations) {
    Names names;
    for (const auto& [name, activation] : activations) names.push_back(name);
    return names;
  }

  // Every module replaces the residual stream. Other activations are written once.
  static Names outputs_of(const Activations& activations, const Names& before) {
    Names outputs = names_of(activations);
    std::erase_if(outputs, [&](const std::string& name) {
      return name != kHidden && std::ranges::find(before, name) != before.end();
    });
    return outputs;
  }

  void record_inputs(const Pass& pass) {
    const auto found = pass.activations.find(kHidden);
    if (found == pass.activations.end() || !found->second.value.defined()) return;
    recorder_.add_activation(Quantity::kRepeatedInput, name(), kHidden, pass.batch,
                             found->second.value);
  }

  void record_outputs(const Pass& pass, const Names& outputs) {
    for (const std::string& output : outputs) {
      const at::Tensor& value = pass.activations.at(output).value;
      if (output == kLoss) recorder_.add_number(Quantity::kLoss, value);
      if (!has_rows(value, pass.batch)) continue;
      recorder_.add_activation(Quantity::kActivation, name(), output, pass.batch, value);
    }
  }

  // Makes the tape tell of the outputs' gradients before anything else, when they are complete.
  void record_backward(Pass& pass, const Names& outputs) {
    std::vector<std::pair<std::string, std::shared_ptr<GradientBuffer>>> gradients;
    for (const std::string& output : outputs) {
      gradients.emplace_back(output, pass.activations.at(output).gradient);
    }
    pass.tape.record([this, gradients, &batch = pass.batch] {
      record_weights(Quantity::kBackwardWeight, batch);
      for (const auto& [output, gradient] : gradients) {
        if (!gradient || !gradient->is_written || !has_rows(gradient->tensor, batch)) continue;
        recorder_.add_activation(Quantity::kActivationGradient, name(), output, batch,
                                 gradient->tensor);
      }
    });
  }

  // All micro-batches of a step read the same weights.
  void record_weights(Quantity of, const Batch& batch) {
    if (!recorder_.is_first(batch)) return;
    for (const ParameterPtr& parameter : parameters()) {
      if (parameter->value.defined()) recorder_.add_part(of, *parameter, 0, parameter->value);
    }
  }

  static bool has_rows(const at::Tensor& value, const Batch& batch) {
    if (!value.defined() || value.dim() != 2) return false;
    const int64_t rows = value.size(0);
    return rows == batch.input_ids_BT.numel() || rows == batch.labels_BT.numel();
  }

  std::unique_ptr<Module> module_;
  FingerprintRecorder& recorder_;
};

class WatchedStrategy : public Strategy {
 public:
  WatchedStrategy(std::unique_ptr<Strategy> strategy, const Model& model,
                  std::span<const Unit> units, Streams& streams, FingerprintRecorder& recorder)
      : strategy_(std::move(strategy)),
        model_(model),
        units_(units),
        streams_(streams),
        recorder_(recorder) {}

  bool reshard_after_forward() const override { return strategy_->reshard_after_forward(); }
  void begin_micro_batch(bool is_last) override { strategy_->begin_micro_batch(is_last); }
  void gather(int unit) override { strategy_->gather(unit); }
  void wait_whole(int unit) override { strategy_->wait_whole(unit); }
  void release(int unit) override { strategy_->release(unit); }
  Buffer whole_buffer(int unit) const override { return strategy_->whole_buffer(unit); }
  void attach_gradient(int unit) override { strategy_->attach_gradient(unit); }
  void reduce(int unit) override {
    if (recorder_.is_recording() && reduces_micro_batch()) record_gradients(unit);
    strategy_->reduce(unit);
  }
  void finish_backward() override { strategy_->finish_backward(); }
  bool reduces_micro_batch() const override { return strategy_->reduces_micro_batch(); }

 private:
  void record_gradients(int unit) {
    streams_.run(StreamId::kCompute, {.reads = {{BufferKind::kGradient, unit}}, .writes = {}}, [&] {
      for (const ParameterPtr& parameter : parameters_of(model_, units_[unit])) {
        const at::Tensor& gradient = parameter->gradient.tensor;
        if (!gradient.defined()) continue;
        recorder_.add_part(Quantity::kLocalGradient, *parameter, 0, gradient);
      }
    });
  }

  std::unique_ptr<Strategy> strategy_;
  const Model& model_;
  std::span<const Unit> units_;
  Streams& streams_;
  FingerprintRecorder& recorder_;
};

}  // namespace

Model FingerprintRecorder::watched(Model model) {
  for (std::unique_ptr<Module>& module : model.modules) {
    module = std::make_unique<WatchedModule>(std::move(module), *this);
  }
  return model;
}

std::unique_ptr<Strategy> FingerprintRecorder::watched(std::unique_ptr<Strategy> strategy,
                                                       const Model& model,
                                                       std::span<const Unit> units,
                                                       Streams& streams) {
  return std::make_unique<WatchedStrategy>(std::move(strategy), model, units, streams, *this);
}

}  // namespace fsdp
