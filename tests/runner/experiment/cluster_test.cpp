#include <catch2/catch.hpp>

#include "tests/runner/experiment/expanded_experiment.h"

namespace fsdp {
namespace {

const std::string kProfiles = R"(experiment: lab
profiles:
  a100x4:
    requires: {gpus: 4, gpu_memory_gib: 79}
    set: {slurm: {gpus_per_node: 4}}
  gpu:
    requires: {gpus: 1}
    set: {slurm: {gpus_per_node: 1, gpu_memory_gib: 40}}
  cpu: {}
)";

ExpandOptions on_cluster(const std::string& profile = "auto", std::vector<std::string> set = {}) {
  return {.profile = profile, .set = std::move(set), .on_cluster = true};
}

// A profile `large` that requires four GPUs of 79 GiB, sets `set`, and comes before `small`.
Expansion with_large(const std::string& set, const ExpandOptions& options = on_cluster()) {
  return expanded("experiment: lab\nprofiles:\n  large: {requires: {gpus: 4, gpu_memory_gib: 79}" +
                      (set.empty() ? "" : ", set: {" + set + "}") + "}\n  small: {}\n",
                  options, kFourGpus);
}

}  // namespace

TEST_CASE("on a cluster a profile is judged by what it asks Slurm for, whatever this host has") {
  for (const Resources& host : {kNoGpus, kFourGpus}) {
    const Expansion expansion = expanded(kProfiles, on_cluster(), host);
    CHECK(expansion.profile == "a100x4");
    CHECK(expansion.profile_reason ==
          "a100x4: asks Slurm for 4 GPUs, whose memory slurm.gpu_memory_gib does not say");
    CHECK(expansion.runs[0].spec.device == DeviceKind::kCuda);
  }
  CHECK(expanded(kProfiles, {}, kNoGpus).profile == "cpu");
  CHECK(expanded(kProfiles, {}, kFourGpus).profile_reason ==
        "a100x4: this host has 4 GPUs of 79.2 GiB");
}

TEST_CASE("a profile that asks Slurm for less than it requires is passed over") {
  CHECK(with_large("").profile_reason == "small: large needs 4 GPUs, asks Slurm for 0");
  CHECK(with_large("slurm.gpus_per_node: 2").profile == "small");
  CHECK(with_large("slurm: {gpus_per_node: 2, nodes: 2}").profile_reason ==
        "large: asks Slurm for 4 GPUs, whose memory slurm.gpu_memory_gib does not say");
  CHECK(with_large("slurm: {gpus_per_node: 4, gpu_memory_gib: 40}").profile_reason ==
        "small: large needs GPUs of 79 GiB, asks Slurm for 40 GiB");
  CHECK(with_large("slurm: {gpus_per_node: 4, gpu_memory_gib: 80}").profile_reason ==
        "large: asks Slurm for 4 GPUs of 80 GiB");
}

TEST_CASE("base and --set are part of what a profile asks Slurm for") {
  CHECK(expanded("experiment: lab\nbase: {slurm.gpus_per_node: 4}\n"
                 "profiles: {large: {requires: {gpus: 4}}, small: {}}\n",
                 on_cluster())
            .profile == "large");
  CHECK(with_large("", on_cluster("auto", {"slurm.gpus_per_node=4"})).profile == "large");
  CHECK(
      with_large("slurm.gpus_per_node: 4", on_cluster("auto", {"slurm.gpus_per_node=1"})).profile ==
      "small");
}

TEST_CASE("--set takes a list of text") {
  const auto modules = [](const std::string& value) {
    return expanded("experiment: lab\nbase: {slurm.modules: [gcc]}",
                    {.set = {"slurm.modules=" + value}})
        .runs[0]
        .spec.slurm.modules;
  };
  CHECK(modules("[gcc/12, 'a b']") == Names{"gcc/12", "a b"});
  CHECK(modules("[]").empty());
  CHECK(message("experiment: lab", {.set = {"slurm.modules=gcc,cuda"}}) ==
        "--set slurm.modules=gcc,cuda: 'slurm.modules': 'gcc,cuda' is not a list; allowed: a list, "
        "each item "
        "one line of text");
}

TEST_CASE("a request may follow from a run's ranks") {
  const std::string text = R"(experiment: lab
profiles: {large: {requires: {gpus: 4}, set: {slurm.gpus_per_node: "${strategy.ranks}"}}}
base: {strategy: {kind: ddp, ranks: 4}}
points:
  - {name: four}
  - {name: one, strategy: {kind: single, ranks: 1}}
)";
  const Expansion expansion = expanded(text, on_cluster());
  CHECK(expansion.profile_reason == "large: asks Slurm for 4 GPUs");
  CHECK(expansion.runs[0].spec.slurm.gpus_per_node == 4);
  CHECK(expansion.runs[1].spec.slurm.gpus_per_node == 1);
  CHECK(expansion.runs[1].spec.device == DeviceKind::kCuda);
}

TEST_CASE("an expression that only points complete says nothing of a profile's request") {
  const std::string text = R"(experiment: lab
profiles: {gpu: {requires: {gpus: 1}, set: {slurm.gpus_per_node: 1}}}
base: {train.steps: "${threads_per_rank} * 2"}
points: [{name: one, threads_per_rank: 3}]
)";
  CHECK(expanded(text, on_cluster()).profile_reason == "gpu: asks Slurm for 1 GPU");
}

TEST_CASE("on a cluster `device: auto` is cuda for the runs that ask for GPUs") {
  const std::string text = R"(experiment: lab
points:
  - {name: on GPUs, slurm.gpus_per_node: 1}
  - {name: on CPUs}
  - {name: CPUs beside GPUs, slurm.gpus_per_node: 1, device: cpu}
)";
  const Expansion expansion = expanded(text, on_cluster(), kFourGpus);
  CHECK(expansion.runs[0].spec.device == DeviceKind::kCuda);
  CHECK(expansion.runs[1].spec.device == DeviceKind::kCpu);
  CHECK(expansion.runs[2].spec.device == DeviceKind::kCpu);
  CHECK(expanded(text, {}, kNoGpus).runs[0].spec.device == DeviceKind::kCpu);
}

TEST_CASE("a run that keeps checkpoints goes on from them unless the file says from where") {
  const std::string text = R"(experiment: lab
points:
  - {name: keeps, checkpoint.every_steps: 5}
  - {name: keeps none}
  - {name: from elsewhere, checkpoint.every_steps: 5, resume: other/step-5}
  - {name: doubled, checkpoint.every_steps: 5, sweep: {double: {batch.size_per_rank: {from: 1, to: 4}}}}
  - {name: always anew, checkpoint.every_steps: 5, resume: never}
)";
  for (const ExpandOptions& where : {on_cluster(), ExpandOptions()}) {
    const Expansion expansion = expanded(text, where, kNoGpus);
    CHECK(expansion.runs[0].spec.resume.is_auto);
    CHECK_FALSE(expansion.runs[1].spec.resume.is_auto);
    CHECK_FALSE(expansion.runs[2].spec.resume.is_auto);
    CHECK(expansion.runs[3].spec.resume.is_auto);
    CHECK(expansion.runs[4].spec.resume.is_never);
  }
}

TEST_CASE("a run has as many ranks as it asks Slurm for GPUs") {
  const std::string text =
      "experiment: lab\nbase: {strategy: {kind: ddp, ranks: 4}, slurm: {gpus_per_node: 2}}\n";
  CHECK(message(text, on_cluster(), kFourGpus) ==
        "lab.yaml:2:37: 'strategy.ranks': 4 ranks need 4 GPUs, but slurm.nodes 1 x "
        "slurm.gpus_per_node 2 ask for 2; raise one of these, or set device: cpu (in 'lab')");
  CHECK(message(text, on_cluster("auto", {"slurm.nodes=2"})) == "no error");
  CHECK(message(text, on_cluster("auto", {"slurm.gpus_per_node=4"})) == "no error");
  CHECK(message(text, on_cluster("auto", {"slurm.gpus_per_node=0"})) == "no error");  // on CPUs
}

TEST_CASE("a profile for GPUs that asks Slurm for none is refused when it is named outright") {
  CHECK_THAT(message("experiment: lab\nprofiles: {large: {requires: {gpus: 4}}}\n",
                     on_cluster("large"), kFourGpus),
             Catch::Contains("1 rank needs 1 GPU, but slurm.nodes 1 x slurm.gpus_per_node 0 ask "
                             "for 0"));
}

TEST_CASE("the values of a doubled key are on the device that their request is for") {
  const Expansion expansion = expanded(R"(experiment: lab
base: {slurm.gpus_per_node: 1}
sweep: {double: {batch.size_per_rank: {from: 1}}}
)",
                                       on_cluster());
  CHECK(expansion.runs[0].spec.device == DeviceKind::kCuda);
}

}  // namespace fsdp
