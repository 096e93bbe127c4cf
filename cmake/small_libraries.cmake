# Libraries that compute nodes may lack. They are linked as archives. A library without an archive
# is copied to lib/ beside the programs, which look there first.

# fsdp_small_library(NAME HEADER): the target NAME for libNAME and the folder of HEADER.
function(fsdp_small_library name header)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
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
