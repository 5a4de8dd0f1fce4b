# Installs two components, and makes a Debian package of each with CPack:
#   program      the program `neuronmm`
#   development  libraries and headers for other projects, which find them by neuronmm-config.cmake

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Comes first, and with each component.
foreach(component program development)
  install(CODE "set(NEURONMM_VERSION ${PROJECT_VERSION})" COMPONENT ${component})
  install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/check_prefix.cmake COMPONENT ${component})
endforeach()

# Parts that are OPTIONAL are left out if they were not built, as after `cmake --build build --target neuronmm`.
install(TARGETS neuronmm RUNTIME COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/share/neuronmm.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program OPTIONAL)
install(FILES ${CMAKE_BINARY_DIR}/share/neuronmm DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        COMPONENT program OPTIONAL)
# `neuronmm nki` runs kernels with these Python packages, which need python3-numpy.
install(DIRECTORY python/nki python/neuronxcc DESTINATION ${CMAKE_INSTALL_DATADIR}/neuronmm/python COMPONENT program
        FILES_MATCHING PATTERN "*.py")
# `neuronmm demo` copies the bundled model, its texts with their licences, and the example kernels.
install(DIRECTORY models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/neuronmm/models COMPONENT program)
install(DIRECTORY examples/kernel DESTINATION ${CMAKE_INSTALL_DATADIR}/neuronmm/examples COMPONENT program
        FILES_MATCHING PATTERN "*.py" PATTERN "*.md")
install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# C++ programs load and run models with these libraries. The first list has the headers that
# docs/reference/cpp_api.md promises. The second list has the headers that these headers include.
set(libraries base ops cpu io jinja unicode tokenizer text model gguf)
set(promised_headers
    base/interrupt.h base/parallel.h base/progress.h base/result.h base/tensor.h cpu/backend.h gguf/import.h
    gguf/mounted_gguf.h io/checkpoint.h io/model_config.h io/model_name.h io/mounted_model.h model/draft.h
    model/draft_model.h model/forward_pass.h model/generate.h model/model_host.h model/ngram_draft.h
    model/sampler.h model/speculation.h model/transformer.h ops/attention.h ops/backend.h
    ops/forwarding_backend.h ops/kv_cache.h ops/reference.h ops/weights.h text/chat_template.h
    text/conversation.h text/stream_decoder.h text/tokenizer/tokenizer.h)
set(included_headers
    base/activation.h base/loop_recorder.h base/low_bit_format.h base/time_estimate.h io/calibration_source.h
    io/families/family_table.h io/folder_writer.h io/generation_config.h io/inode.h io/json_file.h io/mapped_file.h
    io/quantization.h io/rope_scaling.h io/safetensors.h io/safetensors_writer.h io/staging_folder.h
    model/candidates.h model/continuation.h model/dry.h model/layer_weights.h model/logits_processors.h
    model/prompt_cache.h model/proposal_odds.h model/rope.h model/step_prices.h model/token_constraint.h
    model/token_logprobs.h ops/log_sum.h ops/mixture.h ops/wanted_logits.h text/jinja/budget.h text/tokenizer/added_tokens.h
    text/tokenizer/decoder.h text/tokenizer/token_id.h text/tokenizer/tokenizer_config.h
    text/unicode/byte_range.h text/unicode/utf8_stream.h)
foreach(library ${libraries})
  install(TARGETS neuronmm_${library} EXPORT neuronmm ARCHIVE COMPONENT development)
endforeach()
foreach(header ${promised_headers} ${included_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neuronmm/${folder} COMPONENT development)
endforeach()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/neuronmm)
install(EXPORT neuronmm NAMESPACE neuronmm:: FILE neuronmm-targets.cmake DESTINATION ${package} COMPONENT development)
# From 1.0 on, docs/reference/compatibility.md promises the headers within one major version.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatible SameMinorVersion)
else()
  set(compatible SameMajorVersion)
endif()
write_basic_package_version_file(${CMAKE_BINARY_DIR}/neuronmm-config-version.cmake COMPATIBILITY ${compatible})
install(FILES cmake/neuronmm-config.cmake ${CMAKE_BINARY_DIR}/neuronmm-config-version.cmake DESTINATION ${package}
        COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "neuronmm developers <neuronmm@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "low-rank compression and fast inference of large language models")
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME neuronmm)
# The program loads these libraries when a factorization begins
# (src/compress/linear_algebra/blas.cc). dpkg-shlibdeps cannot see that. NumPy is for `neuronmm nki`.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libopenblas0-openmp, liblapacke, python3 (>= 3.11), python3-numpy")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libneuronmm-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libfmt-dev, nlohmann-json3-dev, libhwy-dev, libxxhash-dev, libpcre2-dev, libutf8proc-dev")
include(CPack)
