# The compiler's settings for our own code, and `fsdp_library`, which every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# ccache only makes builds faster. It is left out if it cannot compile here: it may lack a library,
# or may not write to its cache.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  file(WRITE ${CMAKE_BINARY_DIR}/ccache_check.cpp "")
  execute_process(COMMAND ${CCACHE_PROGRAM} ${CMAKE_CXX_COMPILER} -c ccache_check.cpp -o ccache_check.o
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE ccache_fails OUTPUT_QUIET ERROR_QUIET)
endif()
if(CCACHE_PROGRAM AND NOT ccache_fails)
  # ccache's manual requires this sloppiness for precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE_PROGRAM})
endif()

add_library(fsdp_compile_options INTERFACE)
# -fPIC everywhere: the kernels are also in a shared library, and a precompiled header works only
# with the flags that it was compiled with.
target_compile_options(fsdp_compile_options INTERFACE -Wall -Wextra -Wpedantic -Werror -fPIC)
target_include_directories(fsdp_compile_options INTERFACE ${CMAKE_SOURCE_DIR})
if(FSDP_SANITIZE)
  # With sanitizers, GCC warns of uninitialised variables in its own library. At -O0 it does not see
  # that TORCH_CHECK(false) never returns.
  target_compile_options(fsdp_compile_options INTERFACE -fsanitize=${FSDP_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-maybe-uninitialized -Wno-return-type)
  target_link_options(fsdp_compile_options INTERFACE -fsanitize=${FSDP_SANITIZE})
endif()

# fsdp_library(NAME SOURCES a.cpp ... LINK target ... [TORCH])
# One static library per folder; TORCH adds libtorch and its precompiled header.
function(fsdp_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE fsdp_compile_options)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  if(ARG_TORCH)
    fsdp_use_torch(${name})
  else()
    fsdp_compile_quickly(${name})
  endif()
endfunction()
