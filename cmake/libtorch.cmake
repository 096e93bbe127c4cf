# Imported targets for PyTorch's libtorch. The environment variable FSDP_TORCH names PyTorch's
# folder torch/ or the parent of torch/. Without the variable, PyPI's wheel in .venv is used, which
# cmake/setup installs.
#
# PyTorch's own TorchConfig.cmake needs a CUDA toolkit even for a CPU program, so the targets are
# made here.

if(NOT "$ENV{FSDP_TORCH}" STREQUAL "")
  set(torch_places $ENV{FSDP_TORCH})
else()
  file(GLOB torch_places ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages)
endif()
find_path(TORCH_INCLUDE_DIR torch/csrc/autograd/custom_function.h
  HINTS ${torch_places} PATH_SUFFIXES include torch/include NO_DEFAULT_PATH)
if(NOT TORCH_INCLUDE_DIR)
  message(WARNING "There is no libtorch in .venv, so only the runner is built. Call ./fsdp-run, which "
    "installs libtorch, or name in the environment variable FSDP_TORCH the folder of a PyTorch.")
  return()
endif()
cmake_path(GET TORCH_INCLUDE_DIR PARENT_PATH torch_root)
cmake_path(GET torch_root PARENT_PATH torch_parent)

set(torch_version "")
file(GLOB version_headers ${TORCH_INCLUDE_DIR}/torch/headeronly/version.h
  ${TORCH_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h)  # of older versions
foreach(header ${version_headers})
  file(STRINGS ${header} numbers REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  list(APPEND torch_version ${numbers})
endforeach()
list(TRANSFORM torch_version REPLACE "[^0-9]" "")
list(JOIN torch_version . torch_version)
if(NOT torch_version MATCHES "^2\\.1[01]\\.")
  message(FATAL_ERROR "${torch_root} is PyTorch ${torch_version}; allowed: 2.10, 2.11.")
endif()
# cmake/setup compares this with the PyTorch that it is to build against.
set(FSDP_TORCH_BUILT_AGAINST "${torch_version} ${torch_root}" CACHE INTERNAL "")

# fsdp_import_library(NAME FILE): makes the shared library a target, and links it to fsdp_torch.
function(fsdp_import_library name file)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${file})
  target_link_libraries(fsdp_torch INTERFACE ${name})
endfunction()

add_library(fsdp_torch INTERFACE)
# libtorch is built with NDEBUG, on which the members of its classes depend (at::RecordFunction).
target_compile_definitions(fsdp_torch INTERFACE NDEBUG)
target_include_directories(fsdp_torch SYSTEM INTERFACE
  ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
fsdp_import_library(torch_cpu ${torch_root}/lib/libtorch_cpu.so)
fsdp_import_library(c10 ${torch_root}/lib/libc10.so)

if(FSDP_CUDA)
  include(cmake/cuda.cmake)
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
