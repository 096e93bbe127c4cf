# Imported targets over the libtorch inside PyPI's torch wheel.
#
# The wheel's own TorchConfig.cmake wants a CUDA toolkit even for a CPU program, so the targets are
# made here. Looked for in .venv (where cmake/setup puts it) and in CMAKE_PREFIX_PATH (a
# site-packages folder, a torch folder, or an unpacked libtorch).

file(GLOB site_packages ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages)
find_path(TORCH_INCLUDE_DIR torch/csrc/autograd/custom_function.h
  HINTS ${CMAKE_PREFIX_PATH} ${site_packages}
  PATH_SUFFIXES include torch/include NO_DEFAULT_PATH)
if(NOT TORCH_INCLUDE_DIR)
  message(WARNING "There is no libtorch in .venv, so only the runner is built. Call ./fsdp-run, which "
    "installs libtorch, or name in CMAKE_PREFIX_PATH the folder that has torch 2.11.0: a site-packages "
    "folder with the wheel, or an unpacked libtorch.")
  return()
endif()
cmake_path(GET TORCH_INCLUDE_DIR PARENT_PATH torch_root)
cmake_path(GET torch_root PARENT_PATH torch_parent)

# fsdp_import_library(NAME FILE): a shared library as the target fsdp_torch links.
function(fsdp_import_library name file)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${file})
  target_link_libraries(fsdp_torch INTERFACE ${name})
endfunction()

add_library(fsdp_torch INTERFACE)
target_include_directories(fsdp_torch SYSTEM INTERFACE
  ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
fsdp_import_library(torch_cpu ${torch_root}/lib/libtorch_cpu.so)
fsdp_import_library(c10 ${torch_root}/lib/libc10.so)

if(FSDP_CUDA)
  # CUDA and NCCL come from the nvidia wheels beside torch, else from a toolkit.
  set(cuda_hints HINTS ${torch_parent}/nvidia/cu13 ${torch_parent}/nvidia/nccl
                 PATHS /usr/local/cuda $ENV{CUDA_HOME})
  find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h ${cuda_hints} PATH_SUFFIXES include REQUIRED)
  find_path(NCCL_INCLUDE_DIR nccl.h ${cuda_hints} PATH_SUFFIXES include REQUIRED)
  find_library(CUDART_LIBRARY NAMES libcudart.so.13 ${cuda_hints} PATH_SUFFIXES lib lib64 REQUIRED)
  target_include_directories(fsdp_torch SYSTEM INTERFACE ${CUDA_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})
  target_compile_definitions(fsdp_torch INTERFACE FSDP_CUDA USE_C10D_NCCL)
  # Nothing may refer to torch_cuda by name, yet its kernels must be there.
  target_link_options(fsdp_torch INTERFACE LINKER:--no-as-needed)
  fsdp_import_library(torch_cuda ${torch_root}/lib/libtorch_cuda.so)
  fsdp_import_library(c10_cuda ${torch_root}/lib/libc10_cuda.so)
  fsdp_import_library(cudart ${CUDART_LIBRARY})
endif()

# One precompiled header for every file that uses torch.
file(WRITE ${CMAKE_BINARY_DIR}/torch_pch.cpp "")
add_library(fsdp_torch_pch STATIC ${CMAKE_BINARY_DIR}/torch_pch.cpp)
target_link_libraries(fsdp_torch_pch PUBLIC fsdp_torch PRIVATE fsdp_compile_options)
target_precompile_headers(fsdp_torch_pch PRIVATE
  <ATen/ATen.h> <torch/csrc/autograd/custom_function.h>)

function(fsdp_use_torch target)
  target_link_libraries(${target} PUBLIC fsdp_torch)
  target_precompile_headers(${target} REUSE_FROM fsdp_torch_pch)
endfunction()
