# The libraries that compute nodes need not have: an archive becomes part of a program, and a shared
# library that has none goes to lib/ beside the programs, where they look for it first.

# fsdp_small_library(NAME HEADER [SHARED]): the target NAME over libNAME and the folder that has
# HEADER. SHARED: never the archive, which would need the archives of all that it is made of.
function(fsdp_small_library name header)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  if(ARGN STREQUAL "SHARED")
    set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
  endif()
  find_library(${name}_LIBRARY ${name} REQUIRED)
  find_path(${name}_INCLUDE_DIR ${header} REQUIRED)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE ${${name}_LIBRARY})
  target_include_directories(${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIR})
endfunction()

# DT_RPATH, unlike DT_RUNPATH, also serves the libraries that a library in lib/ needs.
function(fsdp_carries_its_libraries program)
  set_target_properties(${program} PROPERTIES BUILD_RPATH $ORIGIN/lib)
  target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -D program=$<TARGET_FILE:${program}> -D folder=${CMAKE_BINARY_DIR}/lib
            -P ${CMAKE_SOURCE_DIR}/cmake/copy_libraries.cmake)
endfunction()
