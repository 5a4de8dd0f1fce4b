# `cmake --install` runs this before it copies anything. It ends with a message if the prefix cannot be
# written, and says what to do about an installation of another version that is there.
# NEURONMM_VERSION is the version that is installed.

if(DEFINED NEURONMM_PREFIX_CHECKED)
  return()  # another component has run this
endif()
set(NEURONMM_PREFIX_CHECKED TRUE)
set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

# Ends the installation if the nearest folder above PLACE that exists cannot be written.
function(require_writable place)
  set(folder "${place}")
  while(NOT EXISTS "${folder}")
    get_filename_component(folder "${folder}" DIRECTORY)
  endwhile()
  if(NOT IS_DIRECTORY "${folder}")
    message(FATAL_ERROR "${folder}: expected a folder to install into, found a file; name another with --prefix DIR")
  endif()
  execute_process(COMMAND test -w "${folder}" RESULT_VARIABLE refused)
  if(refused)
    message(FATAL_ERROR "${folder}: expected a folder that you may write, found one that you may not; run the "
                        "command as root, or install for yourself with --prefix $ENV{HOME}/.local")
  endif()
endfunction()

foreach(folder bin lib share include)
  require_writable("${prefix}/${folder}")
endforeach()

if(EXISTS "${prefix}/bin/neuronmm")
  execute_process(COMMAND "${prefix}/bin/neuronmm" --version OUTPUT_VARIABLE found ERROR_QUIET TIMEOUT 20
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT found STREQUAL "neuronmm ${NEURONMM_VERSION}")
    if(NOT found)
      set(found "a program that does not run")
    endif()
    message(STATUS "${prefix}: ${found} is replaced by ${NEURONMM_VERSION}. Files that only the other version had "
                   "stay there. To be rid of them, end here, delete ${prefix}/share/neuronmm and "
                   "${prefix}/include/neuronmm, and install again.")
  endif()
endif()
