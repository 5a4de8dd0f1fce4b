#pragma once
// The flags of `neuronmm finetune`, declared without libtorch: two programs have them, the one that
// everybody runs, for its help and its usage errors, and the one that trains.

#include <string>

#include <CLI/CLI.hpp>

#include "finetune/finetune.h"
#include "model/bits_flags.h"

namespace neuronmm::apps {

struct FinetuneFlags {
  finetune::FinetuneRequest request;
  std::string which = "v,u", products = "auto", json;
  BitsFlags bits;
  int threads = 0;
};

inline constexpr const char* kFinetuneDescription =
    "Train the factors of a compressed model to recover its quality (libtorch)";

void add_finetune_flags(CLI::App* command, FinetuneFlags& flags);

}  // namespace neuronmm::apps
