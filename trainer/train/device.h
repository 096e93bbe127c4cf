#pragma once

#include <c10/core/Device.h>

#include <string>

#include "contract/devices/device_requirements.h"
#include "contract/record/event.h"
#include "contract/spec/run_spec.h"
#include "trainer/comm/environment.h"
#include "trainer/comm/process_group.h"

// The device of a rank, its number of threads and its memory limit.
namespace fsdp {

// Returns cpu, or the GPU that choose_gpu returns. `auto` means cuda in a CUDA build on a host with
// a GPU, else cpu. Throws ConfigError with a remedy if cuda is wanted but unavailable, or if the
// driver or the GPU does not fit this program's libraries.
at::Device pick_device(DeviceKind kind, const WorldEnvironment& world);

// Returns the number of this rank's GPU among the `count` that this process sees. It is the local
// rank's number, or 0 if the process sees only one GPU (Slurm's --gpus-per-task). Throws
// ConfigError, on every rank of the host, if there are fewer GPUs than ranks on it.
int choose_gpu(const WorldEnvironment& world, int count, const EnvironmentLookup& lookup);

// Throws ConfigError, on every rank, if two ranks were given one GPU, which NCCL cannot use. Call
// it before the first collective. Does nothing on the CPU.
void refuse_shared_gpu(ProcessGroup& group, at::Device device);

TrainerBuild trainer_build();

// Returns a name such as "NVIDIA A100-SXM4-80GB"; on the CPU, the processor's name.
std::string device_name(at::Device device);

// With bind: numa on a GPU, binds this process to the CPUs next to the GPU (see cpu_binding.h).
// Returns these CPUs as text; empty if nothing has changed.
std::string bind_to_device(const RunSpec& spec, const WorldEnvironment& world, at::Device device);

// Sets libtorch's number of threads (see threads_per_rank). `cores` is the number of cores that all
// ranks of this host share. Starts the threads at once, because the system may refuse one.
void start_threads(const RunSpec& spec, const WorldEnvironment& world, int cores);

// Makes segments of GPU memory expandable, unless the user has set the allocator. Call it before
// the GPU's first tensor. Does nothing on the CPU.
void set_allocator(at::Device device);

// Applies memory_limit_gib to the device's allocator. On the CPU it also installs the counting
// allocator, so call it before the first tensor is made. If the process's cgroup has a smaller
// limit of memory, that limit applies on the CPU.
void set_memory_limit(const RunSpec& spec, at::Device device);

// Limits the number of products in 16 bits whose code libtorch and oneDNN keep on the CPU, if rows
// have many lengths. By default, they keep up to 1 MiB for each of 1,024 products. Limits that the
// environment sets stay. Call it before the first tensor.
void limit_kept_products(const RunSpec& spec, at::Device device);

// Makes cuDNN's handle on a GPU where cuDNN may compute attention, before the weights fill the GPU.
void begin_attention(const RunSpec& spec, at::Device device);

// Returns the rank's first event, without the fields that the trainer knows (steps, parameters).
// Call it when the rank's tensors are on the device, because the driver then counts this process.
RunStarted describe_rank(const RunSpec& spec, const WorldEnvironment& world, at::Device device);

// Fills in what NVIDIA's driver reports about the GPU on which this process computes (see
// Nvml::facts_of). `uuid` is CUDA's UUID of the GPU. Fields that the driver does not report stay
// empty or absent.
//
// The number of other processes is the driver's count minus one, for this process. Process numbers
// cannot identify this process, because a container has its own numbers. The number of other
// processes is absent if the driver shows the container no process at all.
void describe_gpu(RunStarted& started, const std::string& uuid);

}  // namespace fsdp
