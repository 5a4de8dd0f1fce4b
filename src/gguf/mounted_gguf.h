#pragma once
// Opens a GGUF file in memory as a model folder (io/mounted_model.h). Its config.json,
// tokenizer.json and other texts are made of its metadata when they are read, and its tensors are
// views of the mapped file.

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "io/mounted_model.h"

namespace neuronmm::gguf {

// Opens the file, or all files of a split model of which `file` is one. Fails like
// GgufShards::open. Missing or wrong metadata is an error of the text or of the weights that need
// it, so that a file with an unknown tokenizer can still be inspected. Programs pass it to
// io::set_mount_opener().
Result<std::shared_ptr<const io::MountedModel>> open_mounted(const std::filesystem::path& file);

// Opens a model in memory that is not split, as fuzz/fuzz_gguf.cc does. The bytes must outlive the
// result.
Result<std::shared_ptr<const io::MountedModel>> mount_bytes(std::span<const std::byte> bytes,
                                                            const std::string& source);

}  // namespace neuronmm::gguf
