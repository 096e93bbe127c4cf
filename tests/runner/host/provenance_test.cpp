#include "runner/host/provenance.h"

#include <catch2/catch.hpp>

#include "base/files/digest.h"

using namespace fsdp;

TEST_CASE("variables that matter are kept in order, secrets and the rest are not") {
  const std::map<std::string, std::string> variables{
      {"SLURM_JOB_ID", "7"},        {"PATH", "/usr/bin"},     {"NCCL_DEBUG", "a \"b\"\n=c"},
      {"CUDA_VISIBLE_DEVICES", ""}, {"WANDB_API_KEY", "x1"},  {"WANDB_MODE", "off"},
      {"SLURM_JWT", "x2"},          {"NCCL_TOKEN", "x3"},     {"TORCH_MY_SECRET", "x4"},
      {"GLOO_PASSWORD", "x5"},      {"MKL_NUM_THREADS", "2"}, {"MY_CUDA_VARIABLE", "x6"},
      {"PYTORCH_ALLOC_CONF", "a"}};
  CHECK(environment_json(variables) ==
        R"({"CUDA_VISIBLE_DEVICES":"","MKL_NUM_THREADS":"2","NCCL_DEBUG":"a \"b\"\n=c",)"
        R"("PYTORCH_ALLOC_CONF":"a","SLURM_JOB_ID":"7","WANDB_MODE":"off"})");
  CHECK(environment_json({}) == "{}");
}

TEST_CASE("of a merged record no variable is told that runs a command or loads a library") {
  const auto read = [](const std::string& environment) {
    Provenance provenance;
    provenance.environment = environment;
    return recorded_variables(provenance);
  };
  using Variables = std::map<std::string, std::string>;
  CHECK(
      read(
          R"({"OMP_NUM_THREADS":"2","LD_PRELOAD":"/tmp/x.so","CUDA_X=1 rm -r ~;":"y","SLURM_JOB_ID":"7",)"
          R"("NCCL_DEBUG":1,"NCCL_ALGO":["a"]})") == Variables{{"OMP_NUM_THREADS", "2"}});
  for (const std::string text : {"", "{", "[]", "null", "3"}) CHECK(read(text).empty());
}

TEST_CASE("this host is described, beside what the caller knows") {
  const Provenance provenance =
      provenance_of_this_process({"c0ffee", true, std::nullopt}, "d1ge57", "points: []");
  CHECK(provenance.git_commit == "c0ffee");
  CHECK(provenance.git_dirty == true);
  CHECK_FALSE(provenance.git_untracked);
  CHECK(provenance.trainer_digest == "d1ge57");
  CHECK(provenance.experiment_text_digest == text_digest("points: []"));
  CHECK(provenance.cpu_cores >= 1);
  CHECK(provenance.memory_total_bytes > (int64_t{1} << 28));
  CHECK_FALSE(provenance.runner_version.empty());
  CHECK(provenance.environment.starts_with("{"));
}
