# The tests that need a build for CUDA, but no GPU.

# These have tensors in host memory. The kernels end where they ask for a device.
set(tests model/launches_of_block_test.cpp)
if(NVCC_PROGRAM)
  list(APPEND tests kernels/own_kernels_test.cpp)
endif()
if(TARGET fsdp_transformer_engine)
  list(APPEND tests kernels/loaded_library_test.cpp kernels/transformer_engine_test.cpp)
  set(transformer_engine fsdp_transformer_engine)
endif()
fsdp_test(cuda_kernels_test TORCH SOURCES ${tests} ${observed_calls}
  LINK fsdp_step ${transformer_engine})
if(TARGET transformer_engine_kernels)
  add_dependencies(cuda_kernels_test transformer_engine_kernels)
endif()

# These run on fake GPUs. libtorch's allocator, its checks and its choices are the real ones.
file(GLOB fake_gpu_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fake_cuda/*_test.cpp)
add_executable(fake_gpu_tests ${fake_gpu_tests} ${plan_cuda_tests} ${observed_calls}
  step/step_allocations.cpp)
target_link_libraries(fake_gpu_tests PRIVATE fake_cuda fake_cuda_order fsdp_plan catch_main
  fsdp_compile_options)
fsdp_use_torch(fake_gpu_tests)
fsdp_files_test(fake_cuda_step_test fake_gpu_tests ${fake_gpu_tests})
fsdp_files_test(plan_cuda_test fake_gpu_tests ${plan_cuda_tests})
