#pragma once

#include "runner/cluster/script.h"

namespace fsdp {

// One run on two GPUs of one node.
inline SlurmScript script_of_one_run() {
  SlurmScript script;
  script.slurm.job_name = "codellama-chess";
  script.slurm.partition = "gpu";
  script.slurm.reservation = "course";
  script.slurm.gpus_per_node = 2;
  script.slurm.cpus_per_task = 10;
  script.slurm.time = "04:00:00";
  script.slurm.output = "%x-%j.out";
  script.slurm.error = "%x-%j.err";
  script.slurm.modules = {"gcc/12.2", "cuda/12.4"};
  script.slurm.prologue = {"source .venv/bin/activate"};
  script.slurm.environment = {"NCCL_SOCKET_IFNAME=ib0", "HF_HUB_OFFLINE=1"};
  script.request = {.nodes = 1, .ranks_per_node = 2, .gpus_per_node = 2};
  script.experiment = "chess";
  script.folder = "/project/results/slurm/chess-5f0c";
  script.runner = "/project/build/cuda/fsdp-run";
  script.working_directory = "/project";
  script.array_tasks = 1;
  script.keeps_checkpoints = true;
  return script;
}

// Several runs on four GPUs of one node.
inline SlurmScript script_of_array() {
  SlurmScript script = script_of_one_run();
  script.slurm = {};
  script.slurm.partition = "h100";
  script.slurm.account = "course-2024";
  script.slurm.gpus_per_node = 4;
  script.slurm.gpu_type = "h100";
  script.slurm.cpus_per_task = 8;
  script.slurm.mem = "480G";
  script.slurm.time = "1-00:00:00";
  script.slurm.exclusive = true;
  script.slurm.max_parallel = 2;
  script.slurm.mail_type = "END,FAIL";
  script.request = {.nodes = 1, .ranks_per_node = 4, .gpus_per_node = 4};
  script.keeps_checkpoints = false;
  script.array_tasks = 3;
  return script;
}

}  // namespace fsdp
