# Copies to `folder` the shared libraries that `program` needs, except those of libtorch, CUDA, libc
# and the compiler. A file that differs is replaced by a rename, so running programs and the hard
# links of cmake/setup keep the old file.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} RESOLVED_DEPENDENCIES_VAR libraries
  PRE_EXCLUDE_REGEXES "^libtorch" "^libc10" "^libcu([bdfps]|rand)" "^libnv" "^libnccl" "^libtransformer_engine"
                      "^libgomp" "^libstdc\\+\\+" "^libgcc_s" "^ld-linux" "^lib[alt]?san|^libubsan"
                      "^lib(c|m|dl|rt|pthread|resolv|util|anl)\\.so"
  POST_EXCLUDE_REGEXES "^${folder}/")
foreach(library ${libraries})
  cmake_path(GET library FILENAME name)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${library} ${folder}/${name}
    RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
  if(differs)
    file(COPY_FILE ${library} ${folder}/${name}.new)
    file(RENAME ${folder}/${name}.new ${folder}/${name})
  endif()
endforeach()
