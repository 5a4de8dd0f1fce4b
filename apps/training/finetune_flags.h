#pragma once
// The flags of `neuronmm finetune`, declared without libtorch because two programs need them.
// neuronmm shows their help and reports usage errors; neuronmm-finetune parses them again and
// trains.

#include <string>

#include <CLI/CLI.hpp>

#include "finetune/finetune.h"
#include "model/bits_flags.h"

namespace neuronmm::apps {

// The values of these flags.
struct FinetuneFlags {
  finetune::FinetuneRequest request;
  std::string which = "v,u", products = "auto", json;
  BitsFlags bits;
  int threads = 0;  // the number of threads; 0 means all cores
};

inline constexpr const char* kFinetuneDescription =
    "Train the factors of a compressed model to recover its quality (libtorch)";

// Adds the flags to `command`. `flags` must outlive it.
void add_finetune_flags(CLI::App* command, FinetuneFlags& flags);

}  // namespace neuronmm::apps
