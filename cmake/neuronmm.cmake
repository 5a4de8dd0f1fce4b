# Sets warnings and sanitizers, and defines the functions with which the folders declare their
# libraries and tests.

add_library(neuronmm_flags INTERFACE)
target_include_directories(neuronmm_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/io/json_destructor)
target_compile_options(neuronmm_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion $<$<BOOL:${NEURONMM_WERROR}>:-Werror>)
# g++ collects garbage only above 600 MB of memory, which most files never reach. Measured: this
# saves a tenth of the time.
target_compile_options(neuronmm_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=600000>)
# Loops over numbers run faster with these options.
set(hot_options $<$<CONFIG:Release>:-O3> -fno-stack-protector)
# These options halve the time to compile a file. Code that spends its own time elsewhere has them:
# commands, tests and libraries that are COLD. Below -O2, g++ 12 wrongly reports the inactive
# members of a std::variant as uninitialised.
set(cold_options -Og $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
if(NEURONMM_SANITIZE)
  set(sanitizers address,undefined)
  target_compile_options(neuronmm_flags INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(neuronmm_flags INTERFACE
      -fsanitize-ignorelist=${CMAKE_SOURCE_DIR}/cmake/sanitizer_ignorelist.txt)
  endif()
  target_compile_definitions(neuronmm_flags INTERFACE _GLIBCXX_ASSERTIONS NEURONMM_SANITIZED)
  target_link_options(neuronmm_flags INTERFACE -fsanitize=${sanitizers})
endif()

# neuronmm_library(NAME SOURCES file... LINKS folder-or-library... [HOT|COLD] [PARSES]) adds the
# static library of one folder of src/.
#   HOT     The library is compiled at -O3. It suits loops over numbers, in which programs spend
#           their time.
#   COLD    The library is compiled with cold_options. It suits code that mostly waits for what it
#           calls, such as the disk or a person who reads.
#   PARSES  The library reads input from outside. In builds with fuzzers its branches are
#           instrumented, and guide the fuzzers.
function(neuronmm_library name)
  cmake_parse_arguments(ARG "COLD;HOT;PARSES" "" "SOURCES;LINKS" ${ARGN})
  add_library(neuronmm_${name} STATIC ${ARG_SOURCES})
  add_library(neuronmm::${name} ALIAS neuronmm_${name})
  set_target_properties(neuronmm_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(neuronmm_${name} PUBLIC $<BUILD_INTERFACE:neuronmm_flags> ${ARG_LINKS})
  target_include_directories(neuronmm_${name} INTERFACE $<INSTALL_INTERFACE:include/neuronmm>)
  target_compile_features(neuronmm_${name} PUBLIC cxx_std_20)
  if(ARG_PARSES AND NEURONMM_FUZZ)
    target_compile_options(neuronmm_${name} PRIVATE -fsanitize=fuzzer-no-link)
    neuronmm_use_headers(neuronmm_${name} fuzzed)
  elseif(ARG_HOT)
    neuronmm_use_headers(neuronmm_${name} hot)
  else()
    neuronmm_use_headers(neuronmm_${name} library)
  endif()
  if(ARG_COLD)
    target_compile_options(neuronmm_${name} PRIVATE ${cold_options})
  elseif(ARG_HOT)
    target_compile_options(neuronmm_${name} PRIVATE ${hot_options})
  endif()
endfunction()

# The target unit_tests builds all tests with the label `unit`.
add_custom_target(unit_tests)

# neuronmm_test(NAME SOURCES file... LINKS library... [SLOW] [COMPUTES] [ONE_PROCESS] [LONG filter])
# adds the tests of one folder. They have the label `unit`: they test one library and take seconds.
# A test that is skipped prints the reason.
#   SLOW         The tests run whole commands, and have the label `slow` instead.
#   COMPUTES     The tests compute references themselves, and are compiled at -O1.
#   ONE_PROCESS  One process runs all tests, because they share work that takes long.
#   LONG         The tests that match this filter of GoogleTest take 15 seconds or more. They have
#                the label `long`, and only `./test.sh --slow` runs them.
function(neuronmm_test name)
  cmake_parse_arguments(ARG "COMPUTES;ONE_PROCESS;SLOW" "LONG" "SOURCES;LINKS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(
    test_${name} PRIVATE neuronmm_flags fmt::fmt ${ARG_LINKS} neuronmm_test_places GTest::gtest_main Threads::Threads)
  target_compile_options(test_${name} PRIVATE ${cold_options} $<$<BOOL:${ARG_COMPUTES}>:-O1>)
  target_compile_definitions(test_${name} PRIVATE $<$<BOOL:${NEURONMM_SANITIZE}>:NEURONMM_SANITIZED>)
  neuronmm_use_headers(test_${name} test)
  if(ARG_SLOW)
    set(label slow)
  else()
    set(label unit)
    add_dependencies(unit_tests test_${name})
  endif()
  # Several tests run at the same time. A waiting OpenMP thread must not keep a core busy that
  # another test needs.
  set(properties LABELS ${label} ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
  if(ARG_ONE_PROCESS)
    add_test(NAME ${name} COMMAND test_${name})
    set_tests_properties(${name} PROPERTIES ${properties})
  else()
    set(filter *)
    if(ARG_LONG)
      set(filter -${ARG_LONG})
      gtest_discover_tests(
        test_${name} TEST_PREFIX ${name}. TEST_FILTER ${ARG_LONG} TEST_LIST long_${name} DISCOVERY_MODE PRE_TEST
        PROPERTIES LABELS long ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)
    endif()
    gtest_discover_tests(
      test_${name} TEST_PREFIX ${name}. TEST_FILTER ${filter} DISCOVERY_MODE PRE_TEST PROPERTIES ${properties})
  endif()
endfunction()
