# The target `bundle`: the trainer and the runner with every shared library they need except those
# of libtorch, CUDA, libc and libstdc++, as a folder and a .tar.gz that run on another machine.

set(bundle ${CMAKE_BINARY_DIR}/fsdp-run-bundle)

# DT_RPATH, unlike DT_RUNPATH, also serves the libraries that a bundled library needs.
foreach(program fsdp-train fsdp-run-program)
  set_target_properties(${program} PROPERTIES INSTALL_RPATH $ORIGIN/../lib)
  target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
endforeach()

install(TARGETS fsdp-train fsdp-run-program RUNTIME_DEPENDENCY_SET bundled_libraries
  RUNTIME DESTINATION bin COMPONENT bundle)
install(RUNTIME_DEPENDENCY_SET bundled_libraries
  PRE_EXCLUDE_REGEXES "^libtorch" "^libc10" "^libcu" "^libnv" "^libnccl" "^libgomp"
                      "^libstdc\\+\\+" "^libgcc_s" "^ld-linux"
                      "^lib(c|m|dl|rt|pthread|resolv|util|anl)\\.so"
  LIBRARY DESTINATION lib COMPONENT bundle)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/bundle/env.sh DESTINATION bin COMPONENT bundle)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/bundle/README.md ${CMAKE_SOURCE_DIR}/LICENSE
  DESTINATION . COMPONENT bundle)
install(FILES ${CMAKE_SOURCE_DIR}/experiments/data/chess/games.csv
              ${CMAKE_SOURCE_DIR}/experiments/data/chess/tokenizer.model
  DESTINATION share/fsdp-run/chess COMPONENT bundle)

add_custom_target(bundle
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${bundle}
  COMMAND ${CMAKE_COMMAND} --install ${CMAKE_BINARY_DIR} --component bundle --strip
          --prefix ${bundle}
  COMMAND ${CMAKE_COMMAND} -E tar czf ${bundle}.tar.gz fsdp-run-bundle
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  COMMENT "Bundling into ${bundle}.tar.gz" VERBATIM)
add_dependencies(bundle fsdp-train fsdp-run-program)
