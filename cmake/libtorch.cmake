# Looks for libtorch, which only `neuronmm finetune` needs. Sets NEURONMM_FINETUNE to ON if libtorch
# is found and compiles with this compiler, which makes the build include that command.

include(CheckCXXSourceCompiles)

set(NEURONMM_FINETUNE OFF)
find_package(Torch QUIET)
if(NOT Torch_FOUND)
  message(STATUS "No libtorch: `neuronmm finetune` is left out. To have it, install Debian's libtorch-dev "
                 "(tools/install_dependencies.sh finetune), or unpack one of pytorch.org and give its folder as "
                 "-DCMAKE_PREFIX_PATH")
  return()
endif()

# Every libstdc++ since GCC 5 has this setting by default. As an option, it would keep the compiler
# from using our precompiled headers.
get_target_property(options torch INTERFACE_COMPILE_OPTIONS)
list(REMOVE_ITEM options -D_GLIBCXX_USE_CXX11_ABI=1)
set_target_properties(torch PROPERTIES INTERFACE_COMPILE_OPTIONS "${options}")

# Some compilers cannot read some versions of libtorch. For example, clang rejects the headers of
# Debian's libtorch 1.13 in C++20.
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
