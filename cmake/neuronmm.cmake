# Warnings, sanitizers and the functions that the folders use to declare a library or a test.

add_library(neuronmm_flags INTERFACE)
target_include_directories(neuronmm_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(neuronmm_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
if(NEURONMM_SANITIZE)
  set(sanitizers address,undefined)
  target_compile_options(neuronmm_flags INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(neuronmm_flags INTERFACE -fsanitize=${sanitizers})
endif()

# neuronmm_library(NAME SOURCES file... LINKS folder-or-library...): the static library of one src/ folder.
function(neuronmm_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(neuronmm_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(neuronmm_${name} PUBLIC neuronmm_flags ${ARG_LINKS})
endfunction()

# neuronmm_test(NAME SOURCES file... LINKS library... [ONE_PROCESS]): the tests of one folder; skips carry their
# reason. ONE_PROCESS: they share work that takes long, so that one process runs them all.
function(neuronmm_test name)
  cmake_parse_arguments(ARG "ONE_PROCESS" "" "SOURCES;LINKS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE ${ARG_LINKS} neuronmm_test_places GTest::gtest_main)
  target_compile_options(test_${name} PRIVATE -O1)  # tests build faster, and run as fast
  # Tests run side by side: a waiting OpenMP thread must not hold a core that another test needs.
  if(ARG_ONE_PROCESS)
    add_test(NAME ${name} COMMAND test_${name})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
  else()
    gtest_discover_tests(test_${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
      PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
  endif()
endfunction()
