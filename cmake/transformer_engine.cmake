# The target transformer_engine_wheel: the C library of NVIDIA's Transformer Engine, from PyPI's
# wheel transformer-engine-cu13 (or -cu12) beside torch or in CMAKE_PREFIX_PATH. Without the wheel
# the target is missing, and everything else is built. Include this file after libtorch.cmake.

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

# libtransformer_engine has no run path and does not list nvrtc as needed. Our library links
# these dependencies instead. Names include versions, because the wheels have no other names.
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
