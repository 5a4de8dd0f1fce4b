# Compiles and links everything with the protections of the compiler and the loader, so that a fault
# in memory ends the program instead of handing it to whoever sent the input. A test reads the result
# back from the linked files (tests/apps/linked_files_test.cc).
#
# Libraries of loops over numbers have no canaries on the stack (hot_options in neuronmm.cmake). They
# read no input, and their loops stay as fast. _GLIBCXX_ASSERTIONS is left to builds with sanitizers,
# because it checks every index of every vector.

include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)

# The last two are for x86 and ARM.
set(CMAKE_REQUIRED_FLAGS -Werror)  # clang only warns of an option for another processor
foreach(option -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
  string(MAKE_C_IDENTIFIER "NEURONMM_HAS_${option}" known)
  check_cxx_compiler_flag(${option} ${known})
  if(${known})
    add_compile_options(${option})
  endif()
endforeach()
unset(CMAKE_REQUIRED_FLAGS)

# The functions of the C library check the sizes of buffers. They need an optimised build, and
# sanitizers have checks of their own. Level 3 needs glibc 2.35 and a compiler that knows the sizes
# of allocated memory; older ones warn.
if(NOT NEURONMM_SANITIZE)
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_cxx_source_compiles("
    #include <cstring>
    int main() { return std::memchr(\"\", 0, 1) == nullptr; }" NEURONMM_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(level 2)
  if(NEURONMM_FORTIFY_3)
    set(level 3)
  endif()
  add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${level}>)
endif()

# Programs are loaded at a random address. Libraries that are loaded at run time are anyway, and what
# is linked into those has CMake's -fPIC.
set(is_loaded $<IN_LIST:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY$<SEMICOLON>MODULE_LIBRARY>)
set(is_for_loaded $<BOOL:$<TARGET_PROPERTY:POSITION_INDEPENDENT_CODE>>)
add_compile_options($<$<NOT:$<OR:${is_loaded},${is_for_loaded}>>:-fPIE>)
add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)

# The loader resolves all functions at the start and then makes the table of them read-only.
foreach(option relro now noexecstack)
  check_linker_flag(CXX -Wl,-z,${option} NEURONMM_LINKS_${option})
  if(NEURONMM_LINKS_${option})
    add_link_options(-Wl,-z,${option})
  endif()
endforeach()
