# What is installed, in three components that CPack makes Debian packages of: the program; `neuronmm finetune`, which
# needs libtorch; libraries and headers for other projects (neuronmm-config.cmake says how they are found).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS neuronmm RUNTIME COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/share/neuronmm.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/share/neuronmm DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        COMPONENT program)
# What `neuronmm nki` runs kernels with; it needs python3-numpy.
install(DIRECTORY python/nki python/neuronxcc DESTINATION ${CMAKE_INSTALL_DATADIR}/neuronmm/python COMPONENT program
        FILES_MATCHING PATTERN "*.py")
if(NEURONMM_FINETUNE)
  install(TARGETS neuronmm_finetune_program RUNTIME COMPONENT finetune)
endif()

set(libraries base parallel ops cpu io jinja text model tensor_parallel gguf compress_linear_algebra compress_calibration compress_statistics compress_rounding compress_factors compress_sizes compress_output compress eval serve_engine serve_grammar serve_protocol serve_web serve_http tile kernels nki simulator trace tuner device validation)
foreach(library ${libraries})
  install(TARGETS neuronmm_${library} EXPORT neuronmm ARCHIVE COMPONENT development)
endforeach()
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neuronmm COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN finetune EXCLUDE PATTERN load EXCLUDE)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/neuronmm)
install(EXPORT neuronmm NAMESPACE neuronmm:: FILE neuronmm-targets.cmake DESTINATION ${package} COMPONENT development)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/neuronmm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/neuronmm-config.cmake ${CMAKE_BINARY_DIR}/neuronmm-config-version.cmake DESTINATION ${package}
        COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "neuronmm developers <neuronmm@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "low-rank compression and fast inference of large language models")
set(CPACK_COMPONENTS_ALL program development)
if(NEURONMM_FINETUNE)
  list(APPEND CPACK_COMPONENTS_ALL finetune)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME neuronmm)
# Loaded when a factorization begins (src/compress/linear_algebra/blas.cc), which dpkg-shlibdeps cannot see.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libopenblas0-openmp, liblapacke")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "python3-numpy")
set(CPACK_DEBIAN_FINETUNE_PACKAGE_NAME neuronmm-finetune)
set(CPACK_DEBIAN_FINETUNE_PACKAGE_DEPENDS neuronmm)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libneuronmm-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libfmt-dev, nlohmann-json3-dev, libhwy-dev, libxxhash-dev, libopenblas0-openmp, liblapacke, libpcre2-dev, libutf8proc-dev, libssl-dev, prometheus-cpp-dev, libboost1.81-dev")
if(NEURONMM_HAS_MPI)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libopenmpi-dev")
endif()
include(CPack)
