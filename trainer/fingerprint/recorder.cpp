// Names the sums over a step's tensors, and writes them as a file's lines.
#include "trainer/fingerprint/recorder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/text/json.h"
#include "contract/spec/chosen_steps.h"
#include "trainer/fingerprint/sums.h"
#include "trainer/kernels/nf4_layout.h"
#include "trainer/memory/counting_allocator.h"

namespace fsdp {
namespace {

// Returns how many elements of the parameter's value, or of its state, belong to the tensor.
int64_t stored_numel(const Parameter& parameter, const NamedTensor& tensor) {
  const int64_t numel = numel_of(tensor);
  return parameter.is_quantized() ? Nf4Layout{numel}.bytes() : numel;
}

// True if the quantity is multiplied by the loss's scale (fp16_mixed). The optimizer divides by it.
bool has_loss_scale(Quantity of) {
  return of == Quantity::kActivationGradient || of == Quantity::kLocalGradient ||
         of == Quantity::kGradient || of == Quantity::kClipDivisor;
}

// True if the activation has the encoder's tokens, in a model that has an encoder.
bool is_of_encoder(const std::string& module, const std::string& activation) {
  if (module == "shared") return activation == kHidden;
  return module.starts_with("encoder.block") || activation == "encoder_output";
}

std::vector<int64_t> labelled_tokens(const at::Tensor& labels_BT) {
  const at::Tensor labels = labels_BT.cpu();
  const int64_t width = labels.size(1);
  std::vector<int64_t> tokens;
  for (int64_t b = 0; b < labels.size(0); ++b) {
    const int64_t* row = labels.const_data_ptr<int64_t>() + b * width;
    int64_t last = width;
    while (last > 0 && row[last - 1] == kNoLabel) --last;
    tokens.push_back(last);
  }
  return tokens;
}

}  // namespace

FingerprintRecorder::FingerprintRecorder(TextList steps, FingerprintsBegin begin)
    : steps_(std::move(steps)), begin_(std::move(begin)) {}

void FingerprintRecorder::begin_step(int64_t step, std::span<const Batch> micro_batches) {
  is_recording_ = is_among_steps(steps_, step);
  if (!is_recording_) return;
  begin_.step = step;
  micro_batches_ = micro_batches;
  tokens_.clear();
  scale_ = micro_batches.front().gradient_scale;
  for (const Batch& batch : micro_batches) {
    const UncountedMemory on_the_host(batch.labels_BT.is_cpu());
    RowTokens& tokens = tokens_.emplace_back();
    tokens.decoder = labelled_tokens(batch.labels_BT);
    if (batch.input_counts_B.defined()) {
      const at::Tensor counts = batch.input_counts_B.cpu();
      tokens.encoder.assign(counts.const_data_ptr<int64_t>(),
                            counts.const_data_ptr<int64_t>() + counts.numel());
    }
    const bool has_encoder = batch.decoder_input_ids_BT.defined();
    add_rows(Quantity::kInputIds, "", has_encoder, batch, batch.input_ids_BT.reshape({-1, 1}));
    add_rows(Quantity::kLabels, "", false, batch, batch.labels_BT.reshape({-1, 1}));
  }
}

void FingerprintRecorder::add_part(Quantity of, const Parameter& parameter, int64_t begin,
                                   const at::Tensor& part, const std::string& state) {
  const UncountedMemory on_the_host(part.is_cpu());
  const at::Tensor flat = part.flatten();
  // A scale stands for a block of elements, which may belong to two tensors.
  if (state.ends_with("_absmax")) {
    const std::string& name = parameter.tensors().front().name;
    add({.of = of, .name = name, .state = state, .begin = begin, .numel = flat.numel()},
        sums_of(flat, begin));
    return;
  }
  int64_t first = 0;
  for (const NamedTensor& tensor : parameter.tensors()) {
    const int64_t numel = stored_numel(parameter, tensor);
    const int64_t from = std::max(begin, first);
    const int64_t to = std::min(begin + flat.numel(), first + numel);
    if (from < to) {
      add({.of = of,
           .name = tensor.name,
           .state = state,
           .begin = from - first,
           .numel = to - from},
          sums_of(flat.narrow(0, from - begin, to - from), from - first));
    }
    first += numel;
  }
}

void FingerprintRecorder::add_activation(Quantity of, const std::string& module,
                                         const std::string& activation, const Batch& batch,
                                         const at::Tensor& value_ND) {
  const bool has_encoder = batch.decoder_input_ids_BT.defined();
  add_rows(of, activation == kHidden ? module : module + '/' + activation,
           has_encoder && is_of_encoder(module, activation), batch, value_ND);
}

void FingerprintRecorder::add_rows(Quantity of, const std::string& name, bool is_encoder,
                                   const Batch& batch, const at::Tensor& value_ND) {
  const UncountedMemory on_the_host(value_ND.is_cpu());
  const auto number = &batch - micro_batches_.data();
  const RowTokens& both = tokens_.at(static_cast<size_t>(number));
  const std::vector<int64_t>& tokens = is_encoder ? both.encoder : both.decoder;
  const int64_t rows = std::ssize(tokens);
  const int64_t width = value_ND.size(0) / rows;
  const int64_t first = number * rows;
  for (int64_t b = 0; b < rows; ++b) {
    if (tokens[b] == 0) continue;
    const at::Tensor row_TD = value_ND.narrow(0, b * width, tokens[b]).contiguous();
    add({.of = of, .name = name, .row = first + b, .numel = row_TD.numel()}, sums_of_row(row_TD));
  }
}

void FingerprintRecorder::add_number(Quantity of, const at::Tensor& number) {
  const UncountedMemory on_the_host(number.is_cpu());
  add({.of = of, .numel = 1}, sums_of(number.reshape({1}), 0));
}

void FingerprintRecorder::add(Fingerprint fingerprint, at::Tensor sums) {
  if (scale_ != 1 && has_loss_scale(fingerprint.of)) {
    sums.div_(scale_);
    sums[1].div_(scale_);  // of squares
  }
  const std::lock_guard lock(mutex_);
  added_.emplace_back(std::move(fingerprint), std::move(sums));
}

std::string FingerprintRecorder::end_step() {
  const UncountedMemory on_the_host;
  is_recording_ = false;
  std::vector<at::Tensor> all;
  for (const auto& [fingerprint, sums] : added_) all.push_back(sums.cpu());
  std::string text = json_text(begin_) + '\n';
  for (size_t i = 0; i < added_.size(); ++i) {
    Fingerprint& fingerprint = added_[i].first;
    const double* sums = all[i].const_data_ptr<double>();
    fingerprint.is_finite = std::all_of(sums, sums + all[i].numel(),
                                        [](double figure) { return std::isfinite(figure); });
    if (fingerprint.is_finite) {
      fingerprint.sum = sums[0];
      fingerprint.square_sum = sums[1];
      fingerprint.projections.assign(sums + 2, sums + 2 + kProjections);
    }
    append_json(text, fingerprint);
    text += '\n';
  }
  text += json_text(FingerprintsEnd{std::ssize(added_)}) + '\n';
  added_.clear();
  return text;
}

}  // namespace fsdp
