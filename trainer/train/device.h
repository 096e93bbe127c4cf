#pragma once

#include <c10/core/Device.h>

#include <string>

#include "contract/record/device_requirements.h"
#include "contract/record/event.h"
#include "contract/spec/run_spec.h"
#include "trainer/comm/environment.h"
#include "trainer/comm/process_group.h"

// Where a rank computes, with how many threads and how much memory.
namespace fsdp {

// cpu, or the GPU that choose_gpu gives. auto: cuda in a CUDA build on a host with a GPU, else cpu.
// Throws ConfigError that says what to do when cuda is wanted and not to be had, or when the driver
// or the GPU does not fit this program's libraries.
at::Device pick_device(DeviceKind kind, const WorldEnvironment& world);

// Which of the `count` GPUs that this process sees is its own: the one with the number of its local
// rank, or the only one, as launchers may show each rank its own (Slurm's --gpus-per-task). Throws
// ConfigError, on every rank of the host, when there are fewer than ranks on it.
int choose_gpu(const WorldEnvironment& world, int count, const EnvironmentLookup& lookup);

// Throws ConfigError, on every rank, when two ranks were given one GPU, which NCCL cannot use;
// before the first collective. Nothing on the CPU.
void refuse_shared_gpu(ProcessGroup& group, at::Device device);

TrainerBuild trainer_build();

// "NVIDIA A100-SXM4-80GB"; on the CPU the processor's name.
std::string device_name(at::Device device);

// With bind: numa and on a GPU, binds this process to the CPUs next to it (see cpu_binding.h).
// Returns which; empty when nothing has changed.
std::string bind_to_device(const RunSpec& spec, const WorldEnvironment& world, at::Device device);

// Gives libtorch that many threads, of `cores` that all ranks of this host share and no more than
// this process has, and has them begin, so that a thread that cannot be had is known at the start.
void start_threads(const RunSpec& spec, const WorldEnvironment& world, int cores);

// Has segments of GPU memory grow, unless the user has set the allocator; before the GPU's first
// tensor. Nothing on the CPU.
void set_allocator(at::Device device);

// Applies memory_limit_gib to the device's allocator. On the CPU it installs the counting
// allocator, so call it before the first tensor is made; there the limit of this process's cgroup
// counts too, if it is smaller.
void set_memory_limit(const RunSpec& spec, at::Device device);

// Makes cuDNN's handle on a GPU where attention may be cuDNN's, before the weights fill the GPU.
void begin_attention(const RunSpec& spec, at::Device device);

// The rank's first event, but for what the trainer knows (steps, parameters). Call it when the
// rank's tensors are on the device: then its own process is among those that compute there.
RunStarted describe_rank(const RunSpec& spec, const WorldEnvironment& world, at::Device device);

// Fills in what NVIDIA's driver says of the GPU on which this process computes, and which CUDA
// knows by this UUID (see Nvml::facts_of). What it does not say stays empty or absent.
//
// Processes of others are all but one of those that it counts: this process is among them, but not
// always to be told from them, as a container has process numbers of its own. Where the driver
// shows a container no process at all, their number is absent.
void describe_gpu(RunStarted& started, const std::string& uuid);

}  // namespace fsdp
