// Prints what llama.cpp computes: the logits of all tokens as fp32, with a cache of fp32. Nothing
// else rounds if the weights are fp32, too. gguf_out.py is the caller.
//
//   llama_logits FILE ID ID ... > logits

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_WARN) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  model_params.check_tensors = true;
  llama_model* const model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) return 1;
  std::vector<llama_token> tokens;
  for (int i = 2; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = 64;
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = static_cast<llama_pos>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  batch.n_tokens = static_cast<int32_t>(tokens.size());
  if (llama_decode(context, batch) != 0) return 1;
  const int width = llama_vocab_n_tokens(llama_model_get_vocab(model));
  for (size_t i = 0; i < tokens.size(); ++i)
    std::fwrite(llama_get_logits_ith(context, static_cast<int32_t>(i)), sizeof(float),
                static_cast<size_t>(width), stdout);
  return 0;
}
