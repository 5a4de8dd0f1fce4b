# Looks for MPI, which only work on several processes needs. NEURONMM_HAS_MPI says whether it is built in.

set(NEURONMM_HAS_MPI OFF)
if(NOT NEURONMM_MPI)
  return()
endif()
set(MPI_CXX_SKIP_MPICXX ON)  # the old C++ classes
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  set(NEURONMM_HAS_MPI ON)
else()
  message(STATUS "No MPI: neuronmm runs as one process. To have several, install Debian's libopenmpi-dev or libmpich-dev")
endif()
