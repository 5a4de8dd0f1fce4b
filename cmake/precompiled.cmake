# Defines the precompiled headers. Reading the headers of the standard library, fmt, JSON, CLI11 and
# GoogleTest takes longer than compiling most files. Each set of headers is therefore compiled once
# for all targets that have the same compiler flags. Every file still includes what it uses:
# `./test.sh --slow` builds with CMAKE_DISABLE_PRECOMPILE_HEADERS.

set(standard_headers
  <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <limits> <map>
  <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <tuple>
  <unordered_map> <utility> <variant> <vector>)
set(json_headers <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# neuronmm_headers(NAME HEADERS header... LINKS library... [OPTIONS option...]) defines a set of
# headers for neuronmm_use_headers. OPTIONS are the compiler options that the targets of this set
# have in addition to those that all targets have.
function(neuronmm_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINKS;OPTIONS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/headers/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// CMake compiles a target's headers only beside a source file.\n")
  add_library(neuronmm_${name}_headers OBJECT ${source})
  target_link_libraries(neuronmm_${name}_headers PRIVATE neuronmm_flags Threads::Threads fmt::fmt ${ARG_LINKS})
  target_compile_options(neuronmm_${name}_headers PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(neuronmm_${name}_headers PRIVATE ${ARG_HEADERS})
endfunction()

# neuronmm_use_headers(TARGET NAME) lets the files of a target use the precompiled headers of the
# set NAME.
function(neuronmm_use_headers target name)
  target_precompile_headers(${target} REUSE_FROM neuronmm_${name}_headers)
endfunction()
