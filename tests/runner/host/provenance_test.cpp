#include "runner/host/provenance.h"

#include <catch2/catch.hpp>

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

TEST_CASE("this host is described") {
  const Provenance provenance = provenance_of_this_process();
  CHECK(provenance.cpu_cores >= 1);
  CHECK(provenance.memory_total_bytes > (int64_t{1} << 28));
  CHECK_FALSE(provenance.runner_version.empty());
  CHECK(provenance.environment.starts_with("{"));
}
