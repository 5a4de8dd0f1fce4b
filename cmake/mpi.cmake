# Looks for MPI, which `neuronmm` only needs to work in several processes. Sets NEURONMM_HAS_MPI to
# ON if MPI is wanted (NEURONMM_MPI) and found.

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
