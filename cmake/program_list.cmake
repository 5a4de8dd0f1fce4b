# Writes the paths of all programs and shared libraries that the build makes, one a line, into
# programs.txt of the build folder. A test reads these files and checks how they were linked.

function(neuronmm_collect_programs folder list)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  set(found ${${list}})
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(EXECUTABLE|MODULE_LIBRARY|SHARED_LIBRARY)$")
      list(APPEND found $<TARGET_FILE:${target}>)
    endif()
  endforeach()
  foreach(subfolder ${folders})
    neuronmm_collect_programs(${subfolder} found)
  endforeach()
  set(${list} ${found} PARENT_SCOPE)
endfunction()

set(programs)
neuronmm_collect_programs(${CMAKE_SOURCE_DIR} programs)
list(JOIN programs "\n" programs)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/programs.txt CONTENT "${programs}\n")
