#pragma once
// Finds the embedding table of a GGUF file, and the LM head if it is another table. import.cc is
// the caller.

#include <string>
#include <string_view>

#include "gguf/gguf_shards.h"

namespace neuronmm::gguf {

// The tensors of a file that hold the embedding table and the LM head.
struct TablesOfFile {
  // The tensor that becomes the embedding table.
  std::string_view table = "token_embd.weight";
  // True if the LM head is the embedding table.
  bool tied = false;
  // The tensor that holds the same table once more, more coarsely rounded. Empty if there is none.
  std::string_view left_out = {};
  // The sentence that says so.
  std::string note = {};
};

// Takes both tables as they are, without reading them. A file without an LM head is tied.
TablesOfFile both_tables(const io::GgufShards& model);

// Reads both tables of the file, if it has two, and compares them (io/twin_tables.h). The finer one
// is taken if they are the same up to rounding.
TablesOfFile find_tables(const io::GgufShards& model);

}  // namespace neuronmm::gguf
