# The target transformer_engine_wheel: NVIDIA's Transformer Engine, its C library from PyPI's wheel
# transformer-engine-cu13 (or -cu12) beside torch or in CMAKE_PREFIX_PATH. Where there is none the
# target is missing and everything builds without it. After libtorch.cmake.

if(NOT FSDP_CUDA)
  return()
endif()
find_path(TRANSFORMER_ENGINE_INCLUDE_DIR transformer_engine/transformer_engine.h
  HINTS ${torch_parent} ${CMAKE_PREFIX_PATH}
  PATH_SUFFIXES transformer_engine/common/include NO_DEFAULT_PATH)
if(NOT TRANSFORMER_ENGINE_INCLUDE_DIR)
  message(STATUS "No wheel of Transformer Engine: its kernels are ATen's")
  return()
endif()

add_library(transformer_engine_wheel INTERFACE)
target_include_directories(transformer_engine_wheel SYSTEM INTERFACE ${TRANSFORMER_ENGINE_INCLUDE_DIR})

# fsdp_link_transformer_engine(NAME FILE)
function(fsdp_link_transformer_engine name file)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${file})
  target_link_libraries(transformer_engine_wheel INTERFACE ${name})
endfunction()

cmake_path(SET transformer_engine_library NORMALIZE
  ${TRANSFORMER_ENGINE_INCLUDE_DIR}/../../wheel_lib/libtransformer_engine.so)
fsdp_link_transformer_engine(transformer_engine ${transformer_engine_library})

# It has no run path, and does not name nvrtc: the program links what it needs, by full names, as the
# wheels have no others.
file(GLOB nvidia_folders ${torch_parent}/nvidia/*/lib)
foreach(name nvrtc.so.13,nvrtc.so.12 cublas.so.13,cublas.so.12 cublasLt.so.13,cublasLt.so.12
        cudnn.so.9 cudnn_graph.so.9 cudnn_engines_runtime_compiled.so.9 cudnn_ops.so.9 cudnn_cnn.so.9
        cudnn_adv.so.9 cudnn_engines_precompiled.so.9 cudnn_heuristic.so.9)
  string(REGEX REPLACE "\\.so.*" "" target ${name})
  string(REGEX REPLACE "([^,]+),?" "lib\\1;" names ${name})
  find_library(TRANSFORMER_ENGINE_${target} NAMES ${names} NAMES_PER_DIR
    HINTS ${nvidia_folders} REQUIRED)
  fsdp_link_transformer_engine(transformer_engine_${target} ${TRANSFORMER_ENGINE_${target}})
endforeach()
