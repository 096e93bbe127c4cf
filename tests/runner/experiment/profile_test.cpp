#include <catch2/catch.hpp>

#include "base/text/config_error.h"
#include "runner/experiment/experiment.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

const std::string kTwoProfiles = R"(experiment: lab
profiles:
  a100x4: {requires: {gpus: 4, gpu_memory_gib: 79}, set: {precision: bf16_true}}
  gpu: {requires: {gpus: 1}}
)";
const std::string kWithCpu = kTwoProfiles + "  cpu: {set: {device: cpu, train.seed: 2}}\n";

Expansion expanded(const std::string& text, const std::string& profile,
                   const Resources& resources) {
  const TemporaryFolder folder;
  return Experiment::load(folder.write("lab.yaml", text)).expand({.profile = profile}, resources);
}

std::string refusal(const std::string& text, const std::string& profile = "auto",
                    const Resources& resources = {}) {
  const TemporaryFolder folder;
  try {
    Experiment::load(folder.write("lab.yaml", text)).expand({.profile = profile}, resources);
  } catch (const ConfigError& error) {
    return folder.without_folder(error.what());
  }
  return "no error";
}

}  // namespace

TEST_CASE("auto takes the first profile whose requirement is met, and says why") {
  const Expansion large = expanded(kWithCpu, "auto", {.gpu_count = 4, .gpu_memory_gib = 79.2});
  CHECK(large.profile == "a100x4");
  CHECK(large.profile_reason == "a100x4: this host has 4 GPUs of 79.2 GiB");
  CHECK(large.runs[0].spec.precision.kind == PrecisionKind::kBf16True);

  const Expansion small = expanded(kWithCpu, "auto", {.gpu_count = 4, .gpu_memory_gib = 40});
  CHECK(small.profile == "gpu");
  CHECK(small.profile_reason == "gpu: a100x4 needs GPUs of 79 GiB, this host has 40 GiB");

  const Expansion none = expanded(kWithCpu, "auto", {});
  CHECK(none.profile == "cpu");
  CHECK(none.profile_reason ==
        "cpu: a100x4 needs 4 GPUs, this host has 0; gpu needs 1 GPU, this host has 0");
  CHECK(none.runs[0].spec.train.seed == 2);
}

TEST_CASE("what is planned for a GPU does not depend on the GPU") {
  const TemporaryFolder folder;
  const auto planned = [&](const std::string& text, const std::string& profile, double gib) {
    const Resources any{.gpu_count = 1'000'000, .gpu_memory_gib = gib};
    return Experiment::load(folder.write("lab.yaml", text))
        .expand({.profile = profile, .check_gpus = false, .for_any_gpu = true}, any);
  };
  for (const double gib : {15.8, 23.6, 79.2}) {
    const Expansion expansion = planned(kWithCpu, "auto", gib);
    CHECK(expansion.profile == "a100x4");
    CHECK(expansion.profile_reason ==
          "a100x4: the first profile that requires GPUs (4 GPUs of 79 GiB); --profile NAME takes "
          "another: gpu, cpu");
  }
  const Expansion named = planned(kWithCpu, "cpu", 15.8);
  CHECK(named.profile == "cpu");
  CHECK(named.runs[0].spec.device == DeviceKind::kCuda);
  CHECK(planned("experiment: lab\nprofiles: {any: {}}", "auto", 15.8).profile == "any");
}

TEST_CASE("what base gives in vain is said, with what the profile gives instead") {
  const auto said = [](const std::string& base, const std::string& set,
                       const std::vector<std::string>& overrides = {}) {
    const TemporaryFolder folder;
    const std::string text = "experiment: lab\nprofiles:\n  cpu: {set: {" + set + "}}\nbase: {" +
                             base + "}\npoints: [{name: a}]\n";
    std::string all;
    const auto file = folder.write("lab.yaml", text);
    for (const std::string& sentence :
         Experiment::load(file).expand({.set = overrides}, {}).overridden) {
      all += (all.empty() ? "" : "\n") + folder.without_folder(sentence);
    }
    return all;
  };
  CHECK(said("precision: bf16_true", "precision: fp32") ==
        "base's precision.kind: bf16_true (lab.yaml:4:19) has no effect: profile cpu sets fp32 "
        "(lab.yaml:3:26)");
  CHECK_THAT(
      said("train.steps: 7", "train.sequences: 192"),
      Catch::Contains("base's train.steps: 7 ") &&
          Catch::EndsWith("profile cpu sets train.sequences (lab.yaml:3:32), which excludes it"));
  CHECK_THAT(said("model.config: llama3-8b", "model.config: t5-small"),
             Catch::Contains("base's model.config: llama3-8b ") &&
                 Catch::Contains("profile cpu sets t5-small "));
  CHECK(said("precision: fp32", "precision: fp32").empty());
  CHECK(said("train.seed: 2", "precision: fp32").empty());
  CHECK(said("precision: bf16_true", "precision: fp32", {"precision=bf16_mixed"}).empty());
}

TEST_CASE("a preset of base is not mixed with a profile's keys of a model") {
  const std::string head =
      "experiment: lab\nbase: {model.config: llama3-8b}\npoints: [{name: a}]\n";
  CHECK(refusal(head + "profiles:\n  cpu: {set: {model.config.num_hidden_layers: 2}}\n") ==
        "lab.yaml:5:47: 'model.config': profile cpu gives keys of a model, and base gives the "
        "preset llama3-8b at lab.yaml:2:22; together they are a model that neither names; remove "
        "the profile's keys, or give the preset in the profile");
  const Expansion whole = expanded(
      head + "profiles: {cpu: {set: {model.config: {preset: t5-small, num_hidden_layers: 2}}}}\n",
      "auto", {});
  CHECK(whole.runs[0].spec.model.config.num_hidden_layers == 2);
  CHECK(whole.runs[0].spec.model.config.vocab_size == 32128);
  const TemporaryFolder folder;
  const Expansion varied = Experiment::load(folder.write("lab.yaml", head))
                               .expand({.set = {"model.config.num_hidden_layers=2"}}, {});
  CHECK(varied.runs[0].spec.model.config.num_hidden_layers == 2);
  CHECK(varied.runs[0].spec.model.config.hidden_size == 4096);
}

TEST_CASE("a profile without requirement fits anywhere") {
  const Expansion expansion = expanded("experiment: lab\nprofiles: {any: {}}", "auto", {});
  CHECK(expansion.profile_reason == "any: it requires nothing");
}

TEST_CASE("a profile named outright is taken even when its requirement is not met") {
  const std::string text = kWithCpu + "base: {strategy: {kind: ddp, ranks: 4}}\n";
  const TemporaryFolder folder;
  const Expansion expansion = Experiment::load(folder.write("lab.yaml", text))
                                  .expand({.profile = "a100x4", .check_gpus = false}, {});
  CHECK(expansion.profile == "a100x4");
  CHECK(expansion.profile_reason ==
        "a100x4: chosen with --profile, although a100x4 needs 4 GPUs, this host has 0");
  CHECK(expansion.runs[0].spec.device == DeviceKind::kCuda);
  CHECK(refusal(text, "a100x4") ==
        "lab.yaml:6:37: 'strategy.ranks': 4 ranks need 4 GPUs, but there are none; allowed: "
        "device: cpu, or a plan without GPUs: fsdp-run plan FILE --gpu NAME (in 'lab')");
  CHECK(expanded(kWithCpu, "cpu", {.gpu_count = 8}).profile_reason == "cpu: chosen with --profile");
}

TEST_CASE("an unknown profile is refused") {
  CHECK(refusal(kWithCpu, "cpx") ==
        "--profile: 'cpx': no such profile in this experiment; did you mean 'cpu'? "
        "allowed: auto, a100x4, gpu, cpu");
  CHECK_THAT(refusal("experiment: lab", "cpu"), Catch::Contains("no such profile"));
}

}  // namespace fsdp
