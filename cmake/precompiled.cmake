# Precompiled headers: the standard library, fmt, JSON, CLI11 and GoogleTest take longer to read than most files take to
# compile, so each set below is read once for all targets that share its compiler flags. They save time and nothing
# else: every file still includes what it uses (`./test.sh --slow` builds with CMAKE_DISABLE_PRECOMPILE_HEADERS).

set(standard_headers
  <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <limits> <map>
  <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <tuple>
  <unordered_map> <utility> <variant> <vector>)
set(json_headers <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# neuronmm_headers(NAME HEADERS header... LINKS library... [OPTIONS option...]): a set for neuronmm_use_headers.
# OPTIONS are the compiler options that its users have beyond those of all.
function(neuronmm_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINKS;OPTIONS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/headers/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// CMake compiles a target's headers only beside a source file.\n")
  add_library(neuronmm_${name}_headers OBJECT ${source})
  target_link_libraries(neuronmm_${name}_headers PRIVATE neuronmm_flags Threads::Threads fmt::fmt ${ARG_LINKS})
  target_compile_options(neuronmm_${name}_headers PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(neuronmm_${name}_headers PRIVATE ${ARG_HEADERS})
endfunction()

# neuronmm_use_headers(TARGET NAME): the target's files find the headers of that set compiled.
function(neuronmm_use_headers target name)
  target_precompile_headers(${target} REUSE_FROM neuronmm_${name}_headers)
endfunction()
