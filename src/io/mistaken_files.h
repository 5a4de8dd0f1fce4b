#pragma once
// Recognizes files and folders that are mistaken for a model: an unfinished download, a web page,
// another format, a LoRA adapter. Readers of models call these functions when they cannot read what
// they found, so that their messages say what it is and what to do. gguf.h recognizes the files of
// llama.cpp.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::io {

// Says what a file is by its first bytes, and what to do: "a Git LFS pointer; run `git lfs pull` in
// its folder". Returns an empty text for bytes that it does not know, JSON among them.
std::string describe_mistaken_file(std::string_view bytes);
std::string describe_mistaken_file(std::span<const std::byte> bytes);

// Returns the error of a parser of JSON. If the text is recognized as something else, the error
// says what it is instead.
Error explain_parse_error(const Error& error, std::string_view text, const std::string& source);

// Returns an error for a file that cannot be opened: the system's message and, for a link, where it
// leads and how the content is fetched.
Error open_error(const std::filesystem::path& path, int system_error);

// Says what a folder holds in place of a model, and what to do: "the model is in DIR/8b". Returns
// an empty text if it knows nothing about the folder.
std::string describe_mistaken_folder(const std::filesystem::path& folder);

// Fails if `file` is missing and describe_mistaken_folder() knows what its folder holds instead.
Status refuse_missing(const std::filesystem::path& file);

// Fails if the folder has a LoRA adapter, alone or beside weights. An adapter is only merged if it
// is named (adapter.h), and without it the weights are another model.
Status refuse_adapter(const std::filesystem::path& folder);

}  // namespace neuronmm::io
