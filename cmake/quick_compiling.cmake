# Keeps builds short, because a user's first call waits for one. Headers that most files include are
# precompiled. Preset dev compiles each file alone and without them, so it finds missing includes.
# CLI11 is not precompiled: each file with it, used or not, takes 4 s longer. Preset release has -O1
# for the same reason: libtorch computes, our code calls it.

find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
fsdp_small_library(fmt fmt/format.h)
fsdp_small_library(yaml-cpp yaml-cpp/yaml.h)

if(CMAKE_UNITY_BUILD)
  file(WRITE ${CMAKE_BINARY_DIR}/quick_pch.cpp "")
  add_library(fsdp_quick_pch STATIC ${CMAKE_BINARY_DIR}/quick_pch.cpp)
  target_link_libraries(fsdp_quick_pch
    PRIVATE fsdp_compile_options fmt yaml-cpp)
  target_precompile_headers(fsdp_quick_pch PRIVATE <chrono> <filesystem> <fstream> <functional>
    <iostream> <map> <ranges> <regex> <set> <sstream> <variant> <fmt/format.h> <fmt/ranges.h>
    <yaml-cpp/yaml.h>)
endif()

function(fsdp_compile_quickly target)
  if(CMAKE_UNITY_BUILD)
    target_precompile_headers(${target} REUSE_FROM fsdp_quick_pch)
  endif()
endfunction()
