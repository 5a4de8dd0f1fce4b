// A program of somebody else that uses the installed libraries. Usage: outside MODEL_DIR PROMPT.
// The program prints the text with which the model continues the prompt. test.sh compares the text
// with the output of `neuronmm generate`.

#include <cstdio>

#include "cpu/backend.h"
#include "model/generate.h"
#include "model/transformer.h"
#include "text/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto tokenizer = neuronmm::text::Tokenizer::load(argv[1]);
  const auto backend = neuronmm::cpu::make_backend();
  const auto transformer = neuronmm::model::Transformer::load(argv[1], *backend);
  if (!tokenizer.ok() || !transformer.ok()) return 1;
  const auto prompt = tokenizer->encode(argv[2]);
  if (!prompt.ok()) return 1;
  const auto generation = neuronmm::model::generate(*transformer, *prompt, {.max_new_tokens = 8});
  if (!generation.ok()) return 1;
  std::puts(tokenizer->decode(generation->tokens).c_str());
}
