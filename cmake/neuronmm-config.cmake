# find_package(neuronmm) reads this file. It defines the libraries neuronmm::base, ops, cpu, io,
# jinja, unicode, tokenizer, text, model and gguf. Headers are included by their folder, as in
# #include "text/tokenizer/tokenizer.h" (docs/reference/cpp_api.md). The components of find_package are names
# of libraries that have to exist.

include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(PkgConfig)
find_dependency(fmt)
find_dependency(nlohmann_json)
foreach(library HWY=libhwy PCRE2=libpcre2-8 UTF8PROC=libutf8proc XXHASH=libxxhash)
  string(REPLACE "=" ";" library ${library})
  list(GET library 0 name)
  list(GET library 1 module)
  if(NOT TARGET PkgConfig::${name})
    pkg_check_modules(${name} REQUIRED QUIET IMPORTED_TARGET ${module})
  endif()
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/neuronmm-targets.cmake)
foreach(component ${neuronmm_FIND_COMPONENTS})
  if(TARGET neuronmm::${component})
    set(neuronmm_${component}_FOUND TRUE)
  elseif(neuronmm_FIND_REQUIRED_${component})
    set(neuronmm_FOUND FALSE)
    set(neuronmm_NOT_FOUND_MESSAGE "neuronmm has no library ${component}")
  endif()
endforeach()
