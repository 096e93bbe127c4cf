// Chooses, prepares and describes a rank's device. Refuses a GPU that cannot work before its use.
#include "trainer/train/device.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "base/system/cgroups.h"
#include "base/system/processor.h"
#include "base/text/config_error.h"
#include "contract/devices/nvml.h"
#include "contract/record/host_memory.h"
#include "trainer/comm/shared_device.h"
#include "trainer/kernels/attention_operators.h"
#include "trainer/memory/counting_allocator.h"
#include "trainer/strategy/precision.h"
#include "trainer/train/allocator_settings.h"
#include "trainer/train/cpu_binding.h"
#include "trainer/train/cuda_device.h"
#ifdef FSDP_CUDA
#include "trainer/backend/cuda_libraries.h"
#endif

namespace fsdp {
namespace {

std::string host_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

// Returns a text such as "2 GPUs with CUDA_VISIBLE_DEVICES=0,1".
std::string seen_gpus(int count, const EnvironmentLookup& lookup) {
  const auto visible = lookup("CUDA_VISIBLE_DEVICES");
  return std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
         (visible ? " with CUDA_VISIBLE_DEVICES=" + *visible : ", CUDA_VISIBLE_DEVICES is not set");
}

#ifdef FSDP_CUDA
void refuse(const std::optional<Misfit>& misfit) {
  if (misfit) throw ConfigError("", "device", misfit->problem + "; " + misfit->remedy);
}

NvidiaDriver driver_of_host() {
  NvidiaDriver driver{.version = "", .cuda_version = cuda_version_of_driver()};
  try {
    if (const std::unique_ptr<Nvml> nvml = Nvml::open()) driver.version = nvml->driver().version;
  } catch (const std::exception&) {
    // The driver's version is only shown to users, so it may be missing.
  }
  return driver;
}

AllocatorSettings allocator_settings_of(at::Device device) {
  return choose_allocator_settings(&environment_variable, cuda_has_virtual_memory(device));
}
#endif

std::optional<int64_t> memory_bytes(at::Device device) {
#ifdef FSDP_CUDA
  if (device.is_cuda()) return cuda_memory_bytes(device);
#endif
  TORCH_CHECK(device.is_cpu(), "no size of memory for ", device);
  return memory_available_bytes();
}

}  // namespace

int choose_gpu(const WorldEnvironment& world, int count, const EnvironmentLookup& lookup) {
  // Several ranks may each see only their own GPU, as number 0. refuse_shared_gpu() finds the
  // others.
  if (count == 1) return 0;
  if (count >= world.local_world_size) return world.local_rank;
  if (count == 0) {
    throw ConfigError(
        "", "device",
        "cuda: no GPU can be used: " + seen_gpus(count, lookup) +
            "; check nvidia-smi, the job's request for GPUs, and a container's option "
            "for them (--gpus all, --nv), or set device: cpu");
  }
  throw ConfigError(
      "", "device",
      "cuda: " + std::to_string(world.local_world_size) +
          " ranks of this host need a GPU each, and local rank " +
          std::to_string(world.local_rank) + " sees " + seen_gpus(count, lookup) +
          "; let every rank see all GPUs (srun --gpus-per-node) or give each rank one "
          "GPU (srun --gpus-per-task=1), check nvidia-smi, start fewer ranks, or set "
          "device: cpu");
}

void refuse_shared_gpu([[maybe_unused]] ProcessGroup& group, [[maybe_unused]] at::Device device) {
#ifdef FSDP_CUDA
  if (!device.is_cuda()) return;
  const std::string gpu = "GPU " + cuda_pci_id(device) + " of " + host_name();  // as NCCL compares
  const auto ranks = ranks_that_share_a_device(group, gpu);
  if (!ranks) return;
  throw ConfigError(
      "", "device",
      "cuda: ranks " + std::to_string(ranks->first) + " and " + std::to_string(ranks->second) +
          " were given the same GPU, and each needs its own; rank " + std::to_string(group.rank()) +
          " has " + gpu + " and sees " + seen_gpus(cuda_device_count(), &environment_variable) +
          "; show all GPUs to every rank (srun --gpus-per-node) or each rank its own "
          "(srun --gpus-per-task=1), or start fewer ranks; NCCL can use only one slice (MIG) of a "
          "GPU");
#endif
}

at::Device pick_device(DeviceKind kind, [[maybe_unused]] const WorldEnvironment& world) {
  if (kind == DeviceKind::kCpu) return at::kCPU;
#ifdef FSDP_CUDA
  const TrainerBuild build = trainer_build();
  // Before any call of CUDA, which would fail in its own words.
  refuse(driver_misfit(build, driver_of_host()));
  const int count = cuda_device_count();
  if (kind == DeviceKind::kCuda || count > 0) {
    const int gpu = choose_gpu(world, count, &environment_variable);
    const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(gpu));
    refuse(gpu_misfit(build, cuda_device_name(device), cuda_compute_capability(device)));
    return device;
  }
#else
  if (kind == DeviceKind::kCuda) {
    throw ConfigError("", "device",
                      "cuda needs the trainer's CUDA build and this one is for the CPU; build it "
                      "with cmake --preset cuda, or set device: cpu");
  }
#endif
  return at::kCPU;
}

TrainerBuild trainer_build() {
  TrainerBuild build;
  build.torch_version = TORCH_VERSION;
#ifdef FSDP_CUDA
  build.cuda_version = cuda_version();
  build.nccl_version = nccl_version();
  build.architectures = FSDP_CUDA_ARCHITECTURES;
#endif
  return build;
}

std::string device_name(at::Device device) {
#ifdef FSDP_CUDA
  if (device.is_cuda()) return cuda_device_name(device);
#endif
  TORCH_CHECK(device.is_cpu(), "no name for ", device);
  return processor_name();
}

std::string bind_to_device([[maybe_unused]] const RunSpec& spec,
                           [[maybe_unused]] const WorldEnvironment& world,
                           [[maybe_unused]] at::Device device) {
#ifdef FSDP_CUDA
  if (device.is_cuda() && spec.bind == Binding::kNuma) {
    // If a rank sees only its own GPU, it assumes the other ranks' GPUs next to the same CPUs.
    std::vector<std::string> pci_ids(world.local_world_size, cuda_pci_id(device));
    for (int rank = 0; cuda_device_count() > 1 && rank < world.local_world_size; ++rank) {
      pci_ids[rank] = cuda_pci_id({at::kCUDA, static_cast<at::DeviceIndex>(rank)});
    }
    return bind_to_local_cpus(pci_ids, world.local_rank);
  }
#endif
  return "";
}

// Starts all threads at once: if the system refuses one, the rank fails now and not in a step.
void start_threads(const RunSpec& spec, const WorldEnvironment& world, int cores) {
  const int threads = threads_per_rank(spec, world, cores, &environment_variable);
  at::set_num_threads(threads);
  at::empty({threads * at::internal::GRAIN_SIZE}, at::kByte).fill_(0);  // gives each thread a part
}

void set_allocator([[maybe_unused]] at::Device device) {
#ifdef FSDP_CUDA
  if (!device.is_cuda()) return;
  const std::string settings = allocator_settings_of(device).ours;
  if (!settings.empty()) set_cuda_allocator(settings);
#endif
}

void set_memory_limit(const RunSpec& spec, at::Device device) {
  const int64_t bytes = memory_limit_bytes(spec);
#ifdef FSDP_CUDA
  if (device.is_cuda()) {
    if (bytes > 0) set_cuda_memory_limit(device, bytes);
    return;
  }
#endif
  TORCH_CHECK(device.is_cpu(), "no memory limit for ", device);
  CountingAllocator::instance().install();
  const int64_t of_cgroup = cgroup_memory_limit_bytes().value_or(0);  // all ranks share it
  const bool is_tighter = of_cgroup > 0 && (bytes == 0 || of_cgroup < bytes);
  if (is_tighter) {
    CountingAllocator::instance().set_limit(of_cgroup, kCgroupLimit);
  } else {
    CountingAllocator::instance().set_limit(bytes);
  }
}

// oneDNN keeps the code of each product. With rows of many lengths that would fill the memory.
void limit_kept_products(const RunSpec& spec, at::Device device) {
  const bool is_narrow = spec.precision.compute() != Dtype::kFp32;
  if (!device.is_cpu() || !is_narrow || spec.data.rows != RowFill::kPadToLongest) return;
  const char* const products = "32";  // more than the layers of one length have
  for (const char* variable : {"LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"}) {
    setenv(variable, products, /*overwrite=*/0);
  }
}

void begin_attention([[maybe_unused]] const RunSpec& spec, [[maybe_unused]] at::Device device) {
#ifdef FSDP_CUDA
  const bool lengths_vary = spec.data.rows == RowFill::kPadToLongest;
  if (!device.is_cuda() || lengths_vary || spec.kernels == KernelSet::kTransformerEngine) return;
  const at::ScalarType dtype = dtypes_of(spec.precision).compute;
  if (may_be_cudnn(dtype, cuda_compute_capability(device).major)) begin_cudnn(device);
#endif
}

RunStarted describe_rank(const RunSpec& spec, const WorldEnvironment& world, at::Device device) {
  RunStarted started;
  started.rank = world.rank;
  started.world_size = world.world_size;
  started.local_rank = world.local_rank;
  started.host = host_name();
  started.process_id = getpid();
  started.device = device.str();
  started.device_name = device_name(device);
  started.threads = at::get_num_threads();
  const TrainerBuild build = trainer_build();
  started.torch_version = build.torch_version;
  started.device_memory_bytes = memory_bytes(device);
  if (const int64_t limit = memory_limit_bytes(spec); limit > 0) {
    started.device_memory_bytes = std::min(limit, started.device_memory_bytes.value_or(limit));
  }
#ifdef FSDP_CUDA
  if (device.is_cuda()) {
    started.cuda_version = build.cuda_version;
    started.nccl_version = build.nccl_version;
    started.compute_capability = text_of(cuda_compute_capability(device));
    started.allocator_settings = allocator_settings_of(device).in_force;
    describe_gpu(started, cuda_device_uuid(device));
  }
#endif
  return started;
}

void describe_gpu(RunStarted& started, const std::string& uuid) {
  try {
    const std::unique_ptr<Nvml> nvml = Nvml::open();
    if (!nvml) return;
    started.driver_version = nvml->driver().version;
    const std::optional<GpuFacts> facts = nvml->facts_of(uuid);
    if (!facts) return;
    started.gpu = facts->device;
    started.power_limit_watts = facts->power_limit_watts;
    started.sm_clock_mhz_max = facts->sm_clock_mhz_max;
    // Without this process, which may have another number in the driver's list.
    if (facts->process_count > 0) started.other_processes = *facts->process_count - 1;
  } catch (const std::exception& error) {
    std::cerr << "fsdp-train: no facts of the GPU: " << error.what() << std::endl;
  }
}

}  // namespace fsdp
