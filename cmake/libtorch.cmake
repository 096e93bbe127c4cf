# Imported targets over the libtorch inside PyPI's torch wheel.
#
# The wheel's own TorchConfig.cmake wants a CUDA toolkit even for a CPU program, so the targets are
# made here. Looked for in .venv (where the set-up script puts it) and in CMAKE_PREFIX_PATH (a
# site-packages folder, a torch folder, or an unpacked libtorch).

file(GLOB FSDP_SITE_PACKAGES ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages)
set(torch_hints ${CMAKE_PREFIX_PATH} ${FSDP_SITE_PACKAGES})
find_path(TORCH_INCLUDE_DIR torch/csrc/autograd/custom_function.h
  HINTS ${torch_hints} PATH_SUFFIXES include torch/include NO_DEFAULT_PATH REQUIRED)
cmake_path(GET TORCH_INCLUDE_DIR PARENT_PATH TORCH_ROOT)
cmake_path(GET TORCH_ROOT PARENT_PATH torch_parent)
set(TORCH_LIBRARY_DIR ${TORCH_ROOT}/lib)

add_library(fsdp_torch INTERFACE)
target_include_directories(fsdp_torch SYSTEM INTERFACE
  ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_link_directories(fsdp_torch INTERFACE ${TORCH_LIBRARY_DIR})
target_link_libraries(fsdp_torch INTERFACE torch_cpu c10)
target_link_options(fsdp_torch INTERFACE "LINKER:-rpath,${TORCH_LIBRARY_DIR}")

if(FSDP_CUDA)
  # CUDA's and NCCL's headers come from the nvidia wheels beside torch, else from a toolkit.
  find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h
    HINTS ${torch_parent}/nvidia/cu13/include /usr/local/cuda/include REQUIRED)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${torch_parent}/nvidia/nccl/include REQUIRED)
  target_include_directories(fsdp_torch SYSTEM INTERFACE ${CUDA_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})
  target_compile_definitions(fsdp_torch INTERFACE FSDP_CUDA USE_C10D_NCCL)
  target_link_libraries(fsdp_torch INTERFACE
    -Wl,--no-as-needed torch_cuda c10_cuda -Wl,--as-needed)
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
