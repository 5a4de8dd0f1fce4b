#pragma once
// The table of all families. A line has the name of the enumerator of io::Architecture and the
// function that returns the family, which is defined in the file of that name.

#define NMM_FAMILIES(F)                   \
  F(kLlama, llama)                        \
  F(kMistral, mistral)                    \
  F(kQwen2, qwen2)                        \
  F(kQwen3, qwen3)                        \
  F(kPhi3, phi3)                          \
  F(kGranite, granite)                    \
  F(kGraniteHybrid, granite4)             \
  F(kSeedOss, seed_oss)                   \
  F(kErnie45, ernie4_5)                   \
  F(kQwen25Vl, qwen2_5_vl)                \
  F(kQwen3Vl, qwen3_vl)                   \
  F(kMinistral, ministral)                \
  F(kMinistral3, ministral3)              \
  F(kMistral3, mistral3)                  \
  F(kSmolLm3, smollm3)                    \
  F(kOlmo2, olmo2)                        \
  F(kOlmo3, olmo3)                        \
  F(kHunYuan, hunyuan)                    \
  F(kGemma2, gemma2)                      \
  F(kGemma3, gemma3)                      \
  F(kGemma3Multimodal, gemma3_multimodal) \
  F(kExaone4, exaone4)                    \
  F(kQwen3Moe, qwen3_moe)                 \
  F(kMixtral, mixtral)                    \
  F(kOlmoe, olmoe)                        \
  F(kGraniteMoe, granite_moe)             \
  F(kGptOss, gpt_oss)
