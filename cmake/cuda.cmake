# Adds CUDA and NCCL to fsdp_torch. The CUDA runtime has the major version that PyTorch was built
# for. It comes from the nvidia wheels beside PyTorch, a conda environment, or a toolkit
# (CUDA_HOME).

if(NOT EXISTS ${torch_root}/lib/libc10_cuda.so)
  message(FATAL_ERROR "${torch_root} is a PyTorch without CUDA. Name one for CUDA 12 or 13 in "
    "FSDP_TORCH, or build for the CPU: cmake --preset release.")
endif()
file(STRINGS ${torch_root}/lib/libc10_cuda.so cudart REGEX "^libcudart\\.so\\.[0-9]+$" LIMIT_COUNT 1)

set(nvidia_wheels ${torch_parent}/nvidia)
find_library(CUDART_LIBRARY NAMES ${cudart}
  HINTS ${nvidia_wheels}/cu13 ${nvidia_wheels}/cuda_runtime ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda PATH_SUFFIXES lib lib64)
if(NOT CUDART_LIBRARY)
  message(FATAL_ERROR "${torch_root} needs ${cudart}, which is neither in NVIDIA's wheels beside it nor "
    "in CUDA_HOME, CMAKE_PREFIX_PATH or an active conda environment. Load the module of that version "
    "of CUDA, or name its folder in CUDA_HOME.")
endif()
cmake_path(GET CUDART_LIBRARY PARENT_PATH cuda_root)
cmake_path(GET cuda_root PARENT_PATH cuda_root)
find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${cuda_root}
  PATH_SUFFIXES include targets/x86_64-linux/include NO_DEFAULT_PATH REQUIRED)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${nvidia_wheels}/nccl ENV NCCL_HOME ${cuda_root}
  PATH_SUFFIXES include REQUIRED)
file(GLOB wheel_include_dirs ${nvidia_wheels}/*/include)
target_include_directories(fsdp_torch SYSTEM INTERFACE
  ${CUDA_INCLUDE_DIR} ${NCCL_INCLUDE_DIR} ${wheel_include_dirs})

# The GPUs that PyTorch has kernels for, such as "sm_75 sm_80". Only its Python library says so:
# without it the list is empty.
set(architectures "")
if(EXISTS ${torch_root}/lib/libtorch_python.so)
  set(architecture "(sm|compute)_[0-9]+[a-z]?")
  file(STRINGS ${torch_root}/lib/libtorch_python.so architectures
    REGEX "^${architecture}( ${architecture})*$" LIMIT_COUNT 1)
endif()
target_compile_definitions(fsdp_torch INTERFACE FSDP_CUDA USE_C10D_NCCL
  FSDP_CUDA_ARCHITECTURES="${architectures}")

# Links torch_cuda even if no code refers to its symbols, because its kernels must be loaded.
target_link_options(fsdp_torch INTERFACE LINKER:--no-as-needed)
fsdp_import_library(torch_cuda ${torch_root}/lib/libtorch_cuda.so)
fsdp_import_library(c10_cuda ${torch_root}/lib/libc10_cuda.so)
fsdp_import_library(cudart ${CUDART_LIBRARY})
