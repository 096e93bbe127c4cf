# The target `bundle`: the built programs with everything that they need except libtorch and CUDA.
# It is a folder and a .tar.gz, for use on another machine.

set(bundle ${CMAKE_BINARY_DIR}/fsdp-run-bundle)
if(FSDP_CUDA)
  string(REGEX MATCH "[0-9]+$" cuda_major ${cudart})
  set(driver 525)
  if(cuda_major GREATER 12)
    set(driver 580)
  endif()
  set(bundle_cuda " for CUDA ${cuda_major}\n(NVIDIA driver ${driver} or newer)")
endif()
foreach(file README.md env.sh)
  configure_file(cmake/bundle/${file}.in ${CMAKE_BINARY_DIR}/bundle/${file} @ONLY)
endforeach()
set(chess ${CMAKE_SOURCE_DIR}/experiments/data/chess)
add_custom_target(bundle
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${bundle}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${bundle}/chess
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:fsdp-run-program> $<TARGET_FILE:fsdp-train>
          ${CMAKE_BINARY_DIR}/bundle/env.sh ${CMAKE_BINARY_DIR}/bundle/README.md
          ${CMAKE_SOURCE_DIR}/cmake/bundle/first-gpu ${CMAKE_SOURCE_DIR}/cmake/bundle/first-gpu.yaml
          ${CMAKE_SOURCE_DIR}/experiments/methods.yaml ${CMAKE_SOURCE_DIR}/experiments/schema.json
          ${CMAKE_SOURCE_DIR}/LICENSE ${bundle}
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_BINARY_DIR}/lib ${bundle}/lib
  COMMAND ${CMAKE_COMMAND} -E copy ${chess}/games.csv ${chess}/tokenizer.model ${bundle}/chess
  COMMAND sh -c "'${CMAKE_STRIP}' --strip-unneeded ${bundle}/fsdp-run ${bundle}/fsdp-train ${bundle}/lib/*"
  COMMAND ${CMAKE_COMMAND} -E tar czf ${bundle}.tar.gz fsdp-run-bundle
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  COMMENT "Bundling into ${bundle}.tar.gz" VERBATIM)
add_dependencies(bundle fsdp-train fsdp-run-program)
if(TARGET fsdp-parquet)
  add_dependencies(bundle fsdp-parquet)
endif()
