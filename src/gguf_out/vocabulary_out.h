#pragma once
// The key-value pairs of a file that describe its tokenizer: the inverse of gguf/vocabulary.h and
// gguf/tokenizer_files.h.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf_out/container_writer.h"
#include "io/model_config.h"

namespace neuronmm::gguf_out {

// Adds tokens, merges or scores, special tokens and chat templates of a folder or a GGUF file.
// llama.cpp has two kinds: byte-level BPE ("gpt2"), whose rules for cutting words must be among
// those that gguf/pre_tokenizers.h names, and SentencePiece ("llama"). Other tokenizers are errors
// that name what is not supported. A folder without a tokenizer.json gets no vocabulary, and a note
// says so. Appends to `notes` what llama.cpp does in another way.
Status add_vocabulary(const std::filesystem::path& folder, const io::ModelConfig& config,
                      Pairs& pairs, std::vector<std::string>& notes);

}  // namespace neuronmm::gguf_out
