#pragma once
// The flags of `neuronmm finetune`, declared without libtorch because two programs need them.
// neuronmm shows their help and reports usage errors; neuronmm-finetune parses them again and
// trains.

#include <string>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "finetune/finetune.h"
#include "model/bits_flags.h"

namespace neuronmm::apps {

// The values of these flags.
struct FinetuneFlags {
  finetune::FinetuneRequest request;
  std::string which = "v,u", products = "auto", json;
  BitsFlags bits;
  int threads = 0;  // the number of threads; 0 means all that can compute at once
};

// Adds the command with its flags and without its work, which differs in the two programs. `flags`
// must outlive the command.
CLI::App* add_finetune_command(Program& program, FinetuneFlags& flags);

}  // namespace neuronmm::apps
