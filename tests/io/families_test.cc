// Tests what families of models make of config.json and of the names of tensors. The logits of all
// families are compared with transformers in tests/model/families_test.cc.

#include <cmath>
#include <span>

#include "config_text.h"
#include "io/checkpoint.h"
#include "io/families/family.h"
#include "io/families/tensor_names.h"
#include "io/model_config.h"
#include "io/model_folder.h"
#include "io/safetensors_writer.h"
#include "io/shards.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

Result<ModelConfig> parse_family(std::string_view changes, std::string_view architecture) {
  return ModelConfig::parse(config_with(changes, architecture), "config.json");
}

// Keys of published files of these families that change nothing.
constexpr std::pair<const char*, const char*> kPublishedKeys[] = {
    {"LlamaForCausalLM",
     R"({"_name_or_path":"x","attention_dropout":0.0,"pretraining_tp":2,"use_cache":true,
         "transformers_version":"4.45","is_llama_config":true,"rope_interleaved":false,
         "transformers.js_config":{"kv_cache_dtype":{"fp16":"float16"}},"unsloth_fixed":true,
         "_attn_implementation_autoset":true,"initializer_range":0.02,"pad_token_id":0})"},
    {"Phi3ForCausalLM",
     R"({"embd_pdrop":0.0,"resid_pdrop":0.0,"full_attn_mod":1,"interpolate_factor":1,
         "lm_head_bias":false,"mlp_bias":false,"attention_bias":false,"sliding_window":262144,
         "auto_map":{"AutoConfig":"configuration_phi3.Phi3Config"},"bos_token_id":199999})"},
    {"Gemma2ForCausalLM",
     R"({"hidden_act":"gelu_pytorch_tanh","hidden_activation":"gelu_pytorch_tanh",
         "cache_implementation":"hybrid","query_pre_attn_scalar":224,"sliding_window_size":null})"},
    {"HunYuanDenseV1ForCausalLM",
     R"({"use_qk_norm":true,"use_cla":false,"cla_share_factor":2,"attention_head_dim":128,
         "norm_type":"rms","use_rotary_pos_emb":true,"num_experts":1,"moe_topk":1,
         "add_classification_head":false,"class_num":0,"pool_type":"last","org_vocab_size":128166,
         "eod_token_id":127967,"sep_token_id":127962,"position_embedding_xdrope":false})"},
    {"SmolLM3ForCausalLM",
     R"({"max_window_layers":28,"no_rope_layer_interval":4,"pretraining_tp":2,
         "use_sliding_window":false,"attention_bias":false,"mlp_bias":false})"},
    {"Ernie4_5_ForCausalLM",
     R"({"use_bias":false,"use_cache":false,"compression_ratio":1.0,"weight_share_add_bias":true})"},
    {"Qwen3MoeForCausalLM",
     R"({"decoder_sparse_step":1,"max_window_layers":48,"mlp_only_layers":[],"norm_topk_prob":true,
         "moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,
         "output_router_logits":false,"router_aux_loss_coef":0.001,"sliding_window":null,
         "use_sliding_window":false,"attention_bias":false})"},
    {"MixtralForCausalLM",
     R"({"num_experts_per_tok":2,"num_local_experts":8,"output_router_logits":false,
         "router_aux_loss_coef":0.02,"router_jitter_noise":0.0,"sliding_window":null})"},
    {"OlmoeForCausalLM",
     R"({"clip_qkv":null,"norm_topk_prob":false,"num_experts":64,"num_experts_per_tok":8,
         "attention_bias":false,"router_aux_loss_coef":0.01,"output_router_logits":false})"},
    {"GraniteMoeForCausalLM",
     R"({"attention_multiplier":0.015625,"embedding_multiplier":12.0,"logits_scaling":6.0,
         "residual_multiplier":0.22,"num_experts_per_tok":8,"num_local_experts":32,
         "output_router_logits":false,"router_aux_loss_coef":0.0,"attention_bias":false})"},
    {"GptOssForCausalLM",
     R"({"attention_bias":true,"experts_per_token":4,"initial_context_length":4096,
         "num_experts_per_tok":4,"num_local_experts":32,"output_router_logits":false,
         "quantization_config":{"modules_to_not_convert":["lm_head"],"quant_method":"mxfp4"},
         "rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,"factor":32.0,"rope_type":"yarn",
                         "original_max_position_embeddings":4096,"truncate":false},
         "rope_theta":150000,"sliding_window":128,"swiglu_limit":7.0})"},
};

TEST(Families, KeysOfPublishedFilesAreAccepted) {
  for (const auto& [architecture, keys] : kPublishedKeys) {
    const auto config = parse_family(keys, architecture);
    EXPECT_TRUE(config.ok()) << config.error().message;
  }
}

TEST(Families, MixturesHaveTheDefaultsOfTheirClasses) {
  struct Expected {
    const char* architecture;
    int64_t count, active, width;
    bool divided;
  };
  for (const Expected& of : {Expected{"Qwen3MoeForCausalLM", 128, 8, 768, false},
                             Expected{"MixtralForCausalLM", 8, 2, 0, true},
                             Expected{"OlmoeForCausalLM", 64, 8, 0, false},
                             Expected{"GraniteMoeForCausalLM", 8, 2, 0, true},
                             Expected{"GptOssForCausalLM", 128, 4, 0, true}}) {
    SCOPED_TRACE(of.architecture);
    const auto config = parse_family("{}", of.architecture);
    ASSERT_TRUE(config.ok()) << config.error().message;
    ASSERT_TRUE(config->experts.has_value());
    EXPECT_EQ(config->experts->count, of.count);
    EXPECT_EQ(config->experts->active, of.active);
    EXPECT_EQ(config->experts->width, of.width > 0 ? of.width : config->intermediate_size);
    EXPECT_EQ(config->experts->divided, of.divided);
    EXPECT_TRUE(config->is_mixture(0));
  }
  const auto gpt_oss = parse_family("{}", "GptOssForCausalLM");
  EXPECT_EQ(gpt_oss->swiglu_clamp, SwigluClamp());
  EXPECT_EQ(gpt_oss->attention_of(0).window, 128);
  EXPECT_TRUE(gpt_oss->attention_bias && gpt_oss->mlp_bias && gpt_oss->experts->router_bias);
}

TEST(Families, LayersOfAMixtureMayBeDense) {
  const auto steps =
      parse_family(R"({"num_hidden_layers":4,"decoder_sparse_step":2})", "Qwen3MoeForCausalLM");
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  for (const int64_t layer : {0, 1, 2, 3}) EXPECT_EQ(steps->is_mixture(layer), layer % 2 == 1);
  const auto named =
      parse_family(R"({"num_hidden_layers":4,"mlp_only_layers":[0,3,99]})", "Qwen3MoeForCausalLM");
  ASSERT_TRUE(named.ok()) << named.error().message;
  for (const int64_t layer : {0, 1, 2, 3}) EXPECT_EQ(named->is_mixture(layer), layer % 3 != 0);
  EXPECT_TRUE(fails_with(parse_family(R"({"mlp_only_layers":[-1]})", "Qwen3MoeForCausalLM"),
                         {"mlp_only_layers", "numbers of layers"}));
  EXPECT_TRUE(fails_with(parse_family(R"({"decoder_sparse_step":0})", "Qwen3MoeForCausalLM"),
                         {"decoder_sparse_step"}));
  EXPECT_TRUE(fails_with(parse_family(R"({"num_experts":20000})", "Qwen3MoeForCausalLM"),
                         {"num_experts", "16384"}));
}

TEST(Families, UnknownKeysAreRefusedByNameWithTheirValue) {
  for (const auto& [key, value] :
       {std::pair("clip_qkv", "8.0"), std::pair("norm_kind", "\"layer\""),
        std::pair("use_parallel_residual", "true"), std::pair("logit_offset", "[1]"),
        std::pair("embedding_multiplier", "12"), std::pair("num_local_experts", "8"),
        std::pair("residual_scale", "0.22"), std::pair("layer_offsets", R"({"0":1})")}) {
    const auto config = parse_family(fmt::format(R"({{"{}":{}}})", key, value), "LlamaForCausalLM");
    EXPECT_TRUE(fails_with(
        config, {"config.json: \"" + std::string(key) + "\"", "not known", "LlamaForCausalLM"}))
        << key;
  }
  for (const char* off : {"false", "0", "\"\"", "[]", "{}"}) {
    const auto config = parse_family(fmt::format(R"({{"clip_qkv":{}}})", off), "LlamaForCausalLM");
    EXPECT_TRUE(config.ok()) << off;
  }
  EXPECT_TRUE(parse_family(R"({"residual_scale":1.0})", "LlamaForCausalLM").ok());
  EXPECT_TRUE(fails_with(
      parse_family(R"({"rope_scaling":{"rope_type":"linear","factor":2,"long_mscale":2}})",
                   "LlamaForCausalLM"),
      {"rope_scaling", "long_mscale", "not known"}));
}

TEST(Families, RefusedFamiliesAreNamedWithWhatIsMissing) {
  for (const auto& [name, missing] :
       {std::pair("Qwen3_5ForCausalLM", "DeltaNet"), std::pair("Gemma3nForCausalLM", "AltUp"),
        std::pair("Gemma4ForConditionalGeneration", "head sizes"),
        std::pair("Glm4ForCausalLM", "RoPE"), std::pair("Cohere2ForCausalLM", "parallel"),
        std::pair("Lfm2ForCausalLM", "convolutions"), std::pair("DeepseekV3ForCausalLM", "latent"),
        std::pair("MambaForCausalLM", "recurrent"), std::pair("Qwen2MoeForCausalLM", "experts"),
        std::pair("GraniteMoeSharedForCausalLM", "dense MLP"),
        std::pair("PhimoeForCausalLM", "experts")}) {
    EXPECT_TRUE(fails_with(parse_family("{}", name), {"config.json", name, "needs", missing}));
  }
  EXPECT_TRUE(
      fails_with(parse_family(R"({"layer_types":["mamba","attention"],"num_local_experts":0})",
                              "GraniteMoeHybridForCausalLM"),
                 {"layer_types", "recurrent"}));
  EXPECT_TRUE(fails_with(
      parse_family(R"({"layer_types":["attention","attention"]})", "GraniteMoeHybridForCausalLM"),
      {"num_local_experts", "experts"}));
  EXPECT_TRUE(
      fails_with(parse_family(R"({"use_bidirectional_attention":true})", "Gemma3ForCausalLM"),
                 {"use_bidirectional_attention", "embedding"}));
}

TEST(Families, OldAndNewKeysOfRopeMeanTheSame) {
  const auto old_keys = parse_family(
      R"({"rope_theta":1000000,"rope_local_base_freq":20000,"sliding_window_pattern":2,
          "rope_scaling":{"rope_type":"linear","factor":8}})",
      "Gemma3ForCausalLM");
  const auto new_keys = parse_family(
      R"({"layer_types":["sliding_attention","full_attention"],"rope_parameters":{
          "full_attention":{"rope_type":"linear","factor":8,"rope_theta":1000000},
          "sliding_attention":{"rope_type":"default","rope_theta":20000}}})",
      "Gemma3ForCausalLM");
  for (const auto* config : {&old_keys, &new_keys}) {
    ASSERT_TRUE(config->ok()) << config->error().message;
    ASSERT_EQ((*config)->ropes.size(), 2u);
    EXPECT_EQ((*config)->ropes[0].theta, 1e6);
    EXPECT_EQ(rope_type((*config)->ropes[0].scaling), "linear");
    EXPECT_EQ((*config)->ropes[1].theta, 20000);
    EXPECT_EQ(rope_type((*config)->ropes[1].scaling), "default");
    EXPECT_EQ((*config)->layers[0], (LayerAttention{.window = 4096, .rope = 1}));
    EXPECT_EQ((*config)->layers[1], (LayerAttention{.window = 0, .rope = 0}));
  }
}

TEST(Families, DefaultsAreThoseOfTheClass) {
  const ModelConfig gemma = *parse_family(R"({"num_key_value_heads":null})", "Gemma2ForCausalLM");
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.num_key_value_heads, 4);
  EXPECT_EQ(gemma.score_cap, 50.0);
  EXPECT_EQ(gemma.score_scale, 1.0 / 16.0);
  EXPECT_EQ(gemma.embedding_scale, std::sqrt(64.0));
  EXPECT_TRUE(gemma.tie_word_embeddings);
  EXPECT_EQ(parse_family("{}", "GraniteForCausalLM")->score_scale, 1.0) << "not 1 / sqrt(head_dim)";
  EXPECT_TRUE(parse_family("{}", "SeedOssForCausalLM")->attention_bias);
  const ModelConfig smollm3 = *parse_family(R"({"num_hidden_layers":5})", "SmolLM3ForCausalLM");
  EXPECT_EQ(smollm3.ropes[0].theta, 2e6);
  EXPECT_EQ(smollm3.layers[3].rope, kNoRope);
  EXPECT_EQ(smollm3.layers[4].rope, 0);
  const ModelConfig exaone = *parse_family(R"({"num_key_value_heads":4,"num_hidden_layers":5,
      "sliding_window_pattern":"LG"})",
                                           "Exaone4ForCausalLM");
  EXPECT_EQ(exaone.layers[0], (LayerAttention{.window = 4096, .rope = 0}));
  EXPECT_EQ(exaone.layers[1], (LayerAttention{.window = 0, .rope = kNoRope}));
  EXPECT_EQ(exaone.layers[4].window, 0) << "the last layer never has one";
}

// The language model of a file that describes images, too.
TEST(Families, LanguageModelsOfMultimodalFilesAreReadFromTextConfig) {
  const auto nested = [](const std::string& root, const std::string& text,
                         const std::string& name) {
    nlohmann::json config = small_config();
    config.erase("architectures");
    config.update(nlohmann::json::parse(text));
    nlohmann::json document = nlohmann::json::parse(root);
    document["architectures"] = {name};
    document["text_config"] = config;
    document["vision_config"] = {{"depth", 3}};
    document["image_token_id"] = 5;
    return ModelConfig::parse(document.dump(), "config.json");
  };
  const auto qwen = nested("{}", R"({"model_type":"qwen2_5_vl_text","tie_word_embeddings":true,
      "rope_scaling":{"type":"mrope","mrope_section":[2,3,3]}})",
                           "Qwen2_5_VLForConditionalGeneration");
  ASSERT_TRUE(qwen.ok()) << qwen.error().message;
  EXPECT_EQ(qwen->architecture, Architecture::kQwen2);
  EXPECT_TRUE(qwen->tie_word_embeddings && qwen->attention_bias);
  EXPECT_EQ(qwen->ropes[0].theta, 1e6);
  EXPECT_EQ(qwen->rms_norm_eps, 1e-5);
  const auto mistral =
      nested("{}", R"({"model_type":"ministral3"})", "Mistral3ForConditionalGeneration");
  ASSERT_TRUE(mistral.ok()) << mistral.error().message;
  EXPECT_EQ(mistral->architecture, Architecture::kMinistral3);
  EXPECT_EQ(mistral->query_temperature, (QueryTemperature{0.1, 16384}));
  EXPECT_TRUE(mistral->tie_by_weights);
  EXPECT_TRUE(
      fails_with(nested("{}", R"({"model_type":"llama"})", "Mistral3ForConditionalGeneration"),
                 {"text_config", "model_type", "ministral3"}));
  EXPECT_TRUE(fails_with(nested("{}", R"({"clip_qkv":3})", "Gemma3ForConditionalGeneration"),
                         {"clip_qkv", "not known"}));
}

// The names in files, and which values a canonical tensor has.
class NamesOfTensors : public testing::Test {
 protected:
  // Writes a folder whose tensors count their elements from 0.
  Result<Checkpoint> open(const std::string& config, const std::map<std::string, Shape>& tensors) {
    std::vector<TensorSpec> specs;
    for (const auto& [name, shape] : tensors) specs.push_back({name, DType::kF32, shape});
    auto writer = SafetensorsWriter::create(root_ / "model.safetensors", specs);
    EXPECT_TRUE(writer.ok());
    for (const TensorSpec& spec : specs) {
      std::vector<float> values(static_cast<size_t>(size_bytes(spec) / 4));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
      EXPECT_TRUE(writer->append(std::as_bytes(std::span(values))).ok());
    }
    EXPECT_TRUE(writer->finish().ok());
    put(root_ / "config.json", config);
    return Checkpoint::open(root_.path());
  }
  static std::vector<float> values(const Checkpoint& checkpoint, const std::string& name) {
    const TensorView& tensor = checkpoint.tensors().at(name);
    std::vector<float> floats(static_cast<size_t>(tensor.size()));
    to_floats(tensor, 0, tensor.size(), floats.data());
    return floats;
  }
  const TemporaryFolder root_;
};

TEST_F(NamesOfTensors, FusedMatricesBecomeTheirRows) {
  const std::string config = config_with(
      R"({"hidden_size":4,"num_attention_heads":2,"num_key_value_heads":1,"intermediate_size":3})",
      "Phi3ForCausalLM");
  const auto checkpoint = open(config, {{"model.layers.0.self_attn.qkv_proj.weight", {8, 1}},
                                        {"model.layers.0.mlp.gate_up_proj.weight", {6, 1}}});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const std::string attention = "model.layers.0.self_attn.", mlp = "model.layers.0.mlp.";
  EXPECT_EQ(values(*checkpoint, attention + "q_proj.weight"), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(values(*checkpoint, attention + "k_proj.weight"), (std::vector<float>{4, 5}));
  EXPECT_EQ(values(*checkpoint, attention + "v_proj.weight"), (std::vector<float>{6, 7}));
  EXPECT_EQ(values(*checkpoint, mlp + "up_proj.weight"), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(checkpoint->tensors().size(), 5u);
  EXPECT_TRUE(fails_with(open(config, {{"model.layers.0.mlp.gate_up_proj.weight", {7, 1}}}),
                         {"gate_up_proj", "6 rows", "[7, 1]"}));
}

TEST_F(NamesOfTensors, NeighbouringPairsAreMovedHalfAHeadApart) {
  const std::string config = config_with(
      R"({"hidden_size":8,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":4})",
      "Ernie4_5ForCausalLM");
  const std::string attention = "model.layers.0.self_attn.";
  const auto checkpoint = open(config, {{attention + "q_proj.weight", {8, 1}},
                                        {attention + "k_proj.bias", {4}},
                                        {attention + "v_proj.weight", {4, 1}}});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(values(*checkpoint, attention + "q_proj.weight"),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(values(*checkpoint, attention + "k_proj.bias"), (std::vector<float>{0, 2, 1, 3}));
  EXPECT_EQ(values(*checkpoint, attention + "v_proj.weight"), (std::vector<float>{0, 1, 2, 3}));
}

TEST_F(NamesOfTensors, OtherPartsAreSkippedAndPrefixesDropped) {
  nlohmann::json config =
      nlohmann::json::parse(config_with("{}", "Gemma3ForConditionalGeneration"));
  const auto checkpoint =
      open(config.dump(), {{"model.vision_tower.x.weight", {1}},
                           {"multi_modal_projector.y.weight", {1}},
                           {"language_model.model.layers.1.pre_feedforward_layernorm.weight", {2}},
                           {"model.language_model.layers.1.post_attention_layernorm.weight", {3}},
                           {"language_model.lm_head.weight", {1, 1}}});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
  EXPECT_TRUE(checkpoint->has("lm_head.weight"));
  EXPECT_TRUE(checkpoint->has("model.layers.1.post_attention_layernorm.weight"));
  EXPECT_EQ(values(*checkpoint, "model.layers.1.self_attn.output_norm.weight").size(), 3u);
}

TEST(Families, StoredNamesAreTheFamilysOwn) {
  EXPECT_EQ(stored_name(Architecture::kGemma3, "model.layers.2.self_attn.output_norm.weight"),
            "model.layers.2.post_attention_layernorm.weight");
  EXPECT_EQ(stored_name(Architecture::kGemma3, "layers.2.post_attention_layernorm.weight"),
            "layers.2.pre_feedforward_layernorm.weight");
  EXPECT_EQ(stored_name(Architecture::kHunYuan, "model.layers.0.self_attn.q_norm.weight"),
            "model.layers.0.self_attn.query_layernorm.weight");
  EXPECT_EQ(stored_name(Architecture::kPhi3, "model.layers.0.mlp.up_v_proj.weight_scale"),
            "model.layers.0.mlp.up_v_proj.weight_scale");
  EXPECT_EQ(stored_name(Architecture::kOlmo2, "model.norm.weight"), "model.norm.weight");
}

TEST(Families, ExpertsAreStoredTogether) {
  const auto stored =
      stacked_module(Architecture::kGptOss, "model.layers.2.mlp.experts.7.up_proj.bias");
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->name, "model.layers.2.mlp.experts.gate_up_proj_bias");
  EXPECT_EQ(stored->expert, 7);
  EXPECT_EQ(stored->part, 1);
  EXPECT_FALSE(stacked_module(Architecture::kGptOss,
                              "model.layers.2.mlp.experts.99999999999999999999.up_proj.bias"));
  EXPECT_FALSE(
      stacked_module(Architecture::kQwen3Moe, "model.layers.2.mlp.experts.7.up_proj.bias"));
}

TEST(Families, TheRowsOfAFusedMatrixFollowEachOther) {
  const auto stored = [](Architecture architecture, const std::vector<std::string>& modules) {
    std::vector<TensorSpec> canonical;
    for (const std::string& module : modules)
      canonical.push_back({"model.layers.1." + module + ".weight", DType::kF32, {2, 3}});
    std::vector<std::string> result;
    for (const StoredTensor& tensor : stored_tensors(architecture, canonical)) {
      result.push_back(fmt::format("{} {} {}", tensor.spec.name.substr(15), tensor.parts,
                                   tensor.spec.shape.front()));
    }
    return result;
  };
  const std::vector<std::string> all = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj"};
  EXPECT_EQ(
      stored(Architecture::kPhi3, all),
      (std::vector<std::string>{"self_attn.qkv_proj.weight 3 6", "self_attn.o_proj.weight 1 2",
                                "mlp.gate_up_proj.weight 2 4"}));
  EXPECT_EQ(stored(Architecture::kLlama, all).size(), 6u);
  // Matrices that do not follow each other stay split.
  EXPECT_EQ(stored(Architecture::kPhi3, {"self_attn.q_proj", "self_attn.k_proj", "mlp.gate_proj"}),
            (std::vector<std::string>{"self_attn.q_proj.weight 1 2", "self_attn.k_proj.weight 1 2",
                                      "mlp.gate_proj.weight 1 2"}));
}

}  // namespace
}  // namespace neuronmm::io
