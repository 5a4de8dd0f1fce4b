# Looks for libtorch, which only `neuronmm finetune` needs. NEURONMM_FINETUNE says whether that is built.

include(CheckCXXSourceCompiles)

set(NEURONMM_FINETUNE OFF)
find_package(Torch QUIET)
if(NOT Torch_FOUND)
  message(STATUS "No libtorch: `neuronmm finetune` is left out. To have it, install Debian's libtorch-dev "
                 "(tools/install_dependencies.sh finetune), or unpack one of pytorch.org and give its folder as "
                 "-DCMAKE_PREFIX_PATH")
  return()
endif()

# What every libstdc++ does since GCC 5, but said aloud it keeps the compiler from using our precompiled headers.
get_target_property(options torch INTERFACE_COMPILE_OPTIONS)
list(REMOVE_ITEM options -D_GLIBCXX_USE_CXX11_ABI=1)
set_target_properties(torch PROPERTIES INTERFACE_COMPILE_OPTIONS "${options}")

# Not every libtorch goes with every compiler: the headers of Debian's 1.13 are no C++20 to clang.
set(CMAKE_REQUIRED_LIBRARIES ${TORCH_LIBRARIES})
check_cxx_source_compiles("
  #include <ATen/ATen.h>
  int main() { return at::zeros({1}).item<int>(); }" NEURONMM_TORCH_COMPILES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NEURONMM_TORCH_COMPILES)
  set(NEURONMM_FINETUNE ON)
else()
  message(STATUS "libtorch ${Torch_VERSION} does not compile with ${CMAKE_CXX_COMPILER_ID} "
                 "${CMAKE_CXX_COMPILER_VERSION}: `neuronmm finetune` is left out")
endif()
