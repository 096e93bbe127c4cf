#include <cstdint>
#include <iostream>
#include <vector>

#include "contract/inputs/inputs.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/model/families.h"
#include "trainer/train/weights.h"

// The logits of a model's folder, as its head computes them:
//
//   logits FOLDER ROWS COLUMNS [DECODER_COLUMNS] < ids > logits
//
// ids: int64, [ROWS, COLUMNS], then of an encoder and a decoder ROWS numbers of input ids that are
// not padding, and the decoder's [ROWS, DECODER_COLUMNS]. Logits: float32.
namespace fsdp {
namespace {

// Keeps the logits that a head hands over, which it makes nowhere else.
class LogitsKept : public AtenKernels {
 public:
  LogitsKept() : AtenKernels(at::kCPU) {}

  at::Tensor evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                    at::Tensor loss_C1) override {
    kept.push_back(logits_CV.clone());
    return AtenKernels::evaluate_cross_entropy(logits_CV, labels_C1, loss_C1);
  }

  std::vector<at::Tensor> kept;
};

at::Tensor read_ids(std::vector<int64_t> shape) {
  const at::Tensor ids = at::empty(shape, at::kLong);
  std::cin.read(static_cast<char*>(ids.data_ptr()), static_cast<std::streamsize>(ids.nbytes()));
  TORCH_CHECK(std::cin, "too few ids");
  return ids;
}

Batch read_batch(int64_t rows, int64_t columns, int64_t decoder_columns) {
  Batch batch{.input_ids_BT = read_ids({rows, columns}), .labels_BT = {}};
  if (decoder_columns != 0) {
    batch.input_counts_B = read_ids({rows});
    batch.decoder_input_ids_BT = read_ids({rows, decoder_columns});
  }
  batch.labels_BT = at::zeros({rows, decoder_columns != 0 ? decoder_columns : columns}, at::kLong);
  return batch;
}

void write_logits(const std::string& folder, const Batch& batch) {
  RunSpec spec;
  spec.model.source = folder;
  const Model model = make_model(model_config(spec));
  const FillParameter fill = make_weight_source(spec);
  LogitsKept kernels;
  Activations activations;
  Tape tape(Tape::Mode::kNoGradients);
  for (const auto& module : model.modules) {
    for (const ParameterPtr& parameter : module->parameters()) {
      parameter->value = at::empty(parameter->shape(), at::kFloat);
      fill(*parameter, 0, parameter->value.view(-1));
    }
  }
  for (const auto& module : model.modules) {
    Pass pass{kernels, batch, tape, activations};
    module->forward(pass);
  }
  const at::Tensor logits = at::cat(kernels.kept).contiguous();
  std::cout.write(static_cast<const char*>(logits.data_ptr()),
                  static_cast<std::streamsize>(logits.nbytes()));
}

}  // namespace
}  // namespace fsdp

int main(int, char** arguments) {
  const int64_t rows = std::stoll(arguments[2]);
  const int64_t columns = std::stoll(arguments[3]);
  const int64_t decoder_columns = arguments[4] == nullptr ? 0 : std::stoll(arguments[4]);
  fsdp::write_logits(arguments[1], fsdp::read_batch(rows, columns, decoder_columns));
}
