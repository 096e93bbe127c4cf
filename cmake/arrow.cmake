# The target fsdp_arrow: Apache Arrow's C++ libraries, from PyPI's wheel pyarrow in .venv.
# cmake/setup installs the wheel if Parquet is needed. Without the wheel the target is missing, and
# everything else is built.

file(GLOB arrow_places ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/pyarrow/include)
find_path(ARROW_INCLUDE_DIR parquet/arrow/reader.h HINTS ${arrow_places} NO_DEFAULT_PATH)
if(NOT ARROW_INCLUDE_DIR)
  return()
endif()
cmake_path(GET ARROW_INCLUDE_DIR PARENT_PATH arrow_folder)
add_library(fsdp_arrow INTERFACE)
target_include_directories(fsdp_arrow SYSTEM INTERFACE ${ARROW_INCLUDE_DIR})
file(GLOB arrow_libraries ${arrow_folder}/libarrow.so.* ${arrow_folder}/libparquet.so.*)
target_link_libraries(fsdp_arrow INTERFACE ${arrow_libraries})
