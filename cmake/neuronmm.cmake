# Warnings, sanitizers and the functions that the folders use to declare a library or a test.

add_library(neuronmm_flags INTERFACE)
target_include_directories(neuronmm_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(neuronmm_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion $<$<BOOL:${NEURONMM_WERROR}>:-Werror>)
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

# neuronmm_library(NAME SOURCES file... LINKS folder-or-library... [COLD] [PARSES]): the static library of one src/ folder.
# COLD: its time goes to what it calls (the disk, libtorch, a person who reads), so -O1, which compiles a third faster,
# will do. PARSES: it reads what strangers wrote, and the fuzzers are guided by which of its branches an input reaches.
function(neuronmm_library name)
  cmake_parse_arguments(ARG "COLD;PARSES" "" "SOURCES;LINKS" ${ARGN})
  add_library(neuronmm_${name} STATIC ${ARG_SOURCES})
  add_library(neuronmm::${name} ALIAS neuronmm_${name})
  set_target_properties(neuronmm_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(neuronmm_${name} PUBLIC $<BUILD_INTERFACE:neuronmm_flags> ${ARG_LINKS})
  target_include_directories(neuronmm_${name} INTERFACE $<INSTALL_INTERFACE:include/neuronmm>)
  target_compile_features(neuronmm_${name} PUBLIC cxx_std_20)
  if(ARG_PARSES AND NEURONMM_FUZZ)
    target_compile_options(neuronmm_${name} PRIVATE -fsanitize=fuzzer-no-link)
    neuronmm_use_headers(neuronmm_${name} fuzzed)
  else()
    neuronmm_use_headers(neuronmm_${name} library)
  endif()
  if(ARG_COLD)
    # At -O1 g++ 12 takes the members of a std::variant that are not the active one for uninitialised.
    target_compile_options(neuronmm_${name} PRIVATE -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# Every test is labelled `unit` (one library, in seconds) or `slow` (whole commands); `unit_tests` builds the former.
add_custom_target(unit_tests)

# neuronmm_test(NAME SOURCES file... LINKS library... [SLOW] [ONE_PROCESS] [LONG filter]): the tests of one folder; skips
# carry their reason. ONE_PROCESS: they share work that takes long, so that one process runs them all. LONG: those that
# GoogleTest's filter names take a quarter of a minute or more, get the label `long`, and run by `./test.sh --slow` only.
function(neuronmm_test name)
  cmake_parse_arguments(ARG "ONE_PROCESS;SLOW" "LONG" "SOURCES;LINKS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(
    test_${name} PRIVATE neuronmm_flags fmt::fmt ${ARG_LINKS} neuronmm_test_places GTest::gtest_main Threads::Threads)
  target_compile_options(test_${name} PRIVATE -O1)  # tests build faster, and run as fast
  target_compile_definitions(test_${name} PRIVATE $<$<BOOL:${NEURONMM_SANITIZE}>:NEURONMM_SANITIZED>)
  neuronmm_use_headers(test_${name} test)
  if(ARG_SLOW)
    set(label slow)
  else()
    set(label unit)
    add_dependencies(unit_tests test_${name})
  endif()
  # Tests run side by side: a waiting OpenMP thread must not hold a core that another test needs.
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
