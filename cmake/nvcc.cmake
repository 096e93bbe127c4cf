# fsdp_compile_cuda(SOURCE OBJECT): compiles our own CUDA kernels. NVCC_PROGRAM is the nvcc of the
# wheel nvidia-cuda-nvcc beside torch, or of a toolkit. Its major CUDA version is the runtime's.
# Without NVCC_PROGRAM, ATen's kernels are used. Include this file after libtorch.cmake.

if(NOT FSDP_CUDA)
  return()
endif()
find_program(NVCC_PROGRAM nvcc
  HINTS ${torch_parent}/nvidia/cu13/bin ${torch_parent}/nvidia/cuda_nvcc/bin ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NVCC_PROGRAM)
  execute_process(COMMAND ${NVCC_PROGRAM} --version OUTPUT_VARIABLE nvcc_version)
  string(REGEX REPLACE ".*release ([0-9]+)\\.([0-9]+).*" "\\1.\\2" nvcc_version "${nvcc_version}")
  string(REGEX REPLACE "\\..*" "" nvcc_major "${nvcc_version}")
  # 12.0 is the first that knows C++20.
  if(nvcc_version VERSION_LESS 12.0 OR NOT CUDART_LIBRARY MATCHES "\\.so\\.${nvcc_major}")
    message(STATUS "${NVCC_PROGRAM} is of CUDA ${nvcc_version}, not that of ${CUDART_LIBRARY}")
    set(NVCC_PROGRAM NVCC_PROGRAM-NOTFOUND CACHE FILEPATH "" FORCE)
  endif()
endif()
if(NOT NVCC_PROGRAM)
  message(STATUS "No nvcc: our own CUDA kernels are ATen's")
endif()

# The GPUs that PyTorch's wheels have kernels for; CUDA 13 has left V100 (sm_70) out. The last one
# serves later GPUs. 12.8 is the first that knows sm_100 and sm_120.
set(kernel_architectures sm_75 sm_80 sm_90 sm_100 sm_120 compute_100)
if(nvcc_version VERSION_LESS 12.8)
  set(kernel_architectures sm_75 sm_80 sm_90 compute_90)
endif()
if(nvcc_major EQUAL 12)
  list(PREPEND kernel_architectures sm_70)
endif()
set(cuda_architectures "")
foreach(code ${kernel_architectures})
  string(REGEX REPLACE "^[a-z]+" "compute" arch ${code})
  list(APPEND cuda_architectures -gencode arch=${arch},code=${code})
endforeach()
# Without kernels of our own, no architecture is required.
list(JOIN kernel_architectures " " FSDP_KERNEL_ARCHITECTURES)
if(NOT NVCC_PROGRAM)
  set(FSDP_KERNEL_ARCHITECTURES "")
endif()

# A kernel that spills registers to memory does not compile.
function(fsdp_compile_cuda source object)
  add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d
    COMMAND ${NVCC_PROGRAM} -c ${source} -o ${object} -MD -MF ${object}.d -ccbin ${CMAKE_CXX_COMPILER}
            -std=c++20 -O3 -I ${CMAKE_SOURCE_DIR} -isystem ${CUDA_INCLUDE_DIR}
            ${cuda_architectures}
            -Xptxas --warn-on-spills,--warning-as-error -Xcompiler -Wall,-Wextra,-Werror,-fPIC
    VERBATIM)
endfunction()
