#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "base/system/processor.h"
#include "contract/record/event.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "trainer/comm/environment.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/train/device.h"
#include "trainer/train/trainer.h"

namespace fsdp {
namespace {

// The kernels of the CPU, which also write the logits of training and evaluation. The logits are
// fp32, in the order of the rank's labels.
class KernelsThatWriteLogits : public AtenKernels {
 public:
  KernelsThatWriteLogits(const std::string& training_file, const std::string& evaluation_file)
      : AtenKernels(at::kCPU),
        training_(training_file, std::ios::binary),
        evaluation_(evaluation_file, std::ios::binary) {
    training_.exceptions(std::ios::badbit | std::ios::failbit);
    evaluation_.exceptions(std::ios::badbit | std::ios::failbit);
  }

  void cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                     at::Tensor loss_C1) override {
    write(logits_CV, training_);
    AtenKernels::cross_entropy(logits_CV, labels_C1, loss_C1);
  }

  at::Tensor evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                    at::Tensor loss_C1) override {
    write(logits_CV, evaluation_);
    return AtenKernels::evaluate_cross_entropy(logits_CV, labels_C1, loss_C1);
  }

 private:
  static void write(const at::Tensor& logits_CV, std::ofstream& file) {
    const at::Tensor values = logits_CV.to(at::kFloat).contiguous();
    file.write(reinterpret_cast<const char*>(values.const_data_ptr<float>()),
               static_cast<std::streamsize>(values.nbytes()));
  }

  std::ofstream training_;
  std::ofstream evaluation_;
};

void train(const std::string& spec_file, int attempt) {
  const WorldEnvironment world = read_world_environment();
  const RunSpec spec = read_run_spec(spec_file);
  check_inputs_of_rank(spec);
  const at::Device device(at::kCPU);
  start_threads(spec, world, available_cores());
  set_memory_limit(spec, device);
  const auto group = make_process_group(world, device);

  const RunPaths paths(std::filesystem::absolute(spec_file).parent_path());
  const auto file = [&](const std::string& name) {
    return paths.attempt(attempt) / (name + ".rank" + std::to_string(world.rank) + ".f32");
  };
  Backend backend(device, device.type(), make_streams(device),
                  std::make_unique<KernelsThatWriteLogits>(file("training"), file("evaluation")),
                  make_memory_probe(device));
  EventWriter events(paths.events(attempt, world.rank));
  Trainer(spec, paths, attempt, backend, *group, events).run();
  group->barrier();
}

}  // namespace
}  // namespace fsdp

// Trains as fsdp-train does, as one rank on the CPU, and writes the rank's logits beside its
// events: training.rankN.f32 and evaluation.rankN.f32, [labels, vocabulary].
int main(int argc, char** argv) try {
  CLI::App app;
  std::string spec_file;
  int attempt = 1;
  app.add_option("--spec", spec_file)->required();
  app.add_option("--attempt", attempt);
  CLI11_PARSE(app, argc, argv);
  fsdp::train(spec_file, attempt);
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
