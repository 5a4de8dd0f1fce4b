// Tests reading config.json: defaults, architectures, and the checks of every field.

#include "io/model_config.h"

#include <map>

#include "config_text.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

Result<ModelConfig> parse(std::string_view changes,
                          std::string_view architecture = "LlamaForCausalLM") {
  return ModelConfig::parse(config_with(changes, architecture), "config.json");
}

ModelConfig parsed(std::string_view changes, std::string_view architecture = "LlamaForCausalLM") {
  const auto config = parse(changes, architecture);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? *config : ModelConfig{};
}

TEST(ModelConfig, DefaultsAreThoseOfTransformers) {
  const ModelConfig config = parsed("{}");
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(parsed(R"({"num_key_value_heads":null})").num_key_value_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.ropes[0].theta, 10000.0);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_EQ(config.layers[0].window, 0);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias || config.attention_output_bias);
  EXPECT_EQ(config.qk_norm, QkNorm::kNone);
  EXPECT_EQ(rope_type(config.ropes[0].scaling), "default");
  EXPECT_FALSE(config.compression || config.bos_token_id);
  EXPECT_TRUE(config.eos_token_ids.empty());
  EXPECT_EQ(config.dtype, DType::kBF16);
}

TEST(ModelConfig, ArchitecturesAreReadFromClassOrModelType) {
  for (const std::string name : {"Llama", "Mistral", "Qwen2", "Qwen3"}) {
    const std::string class_name = name + "ForCausalLM";
    EXPECT_EQ(architecture_name(parsed("{}", class_name).architecture), class_name);
  }
  EXPECT_EQ(parsed(R"({"architectures":null,"model_type":"qwen3"})").architecture,
            Architecture::kQwen3);
  EXPECT_EQ(parsed(R"({"architectures":[],"model_type":"mistral"})").architecture,
            Architecture::kMistral);
}

TEST(ModelConfig, UnknownArchitecturesAreRefusedWithTheKnownOnes) {
  EXPECT_TRUE(fails_with(parse("{}", "GemmaForCausalLM"),
                         {"config.json", "GemmaForCausalLM", "LlamaForCausalLM",
                          "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}));
  EXPECT_TRUE(fails_with(parse(R"({"architectures":null,"model_type":"gpt2"})"),
                         {"\"model_type\"", "gpt2", "llama, mistral, qwen2, qwen3"}));
  EXPECT_TRUE(fails_with(parse(R"({"architectures":null})"), {"architectures", "missing"}));
  EXPECT_TRUE(fails_with(parse(R"({"architectures":"LlamaForCausalLM"})"), {"a list"}));
  EXPECT_TRUE(fails_with(parse(R"({"architectures":[3]})"), {"a list of class names"}));
}

TEST(ModelConfig, BiasAndNormSwitchesFollowTheArchitecture) {
  const ModelConfig llama = parsed(R"({"attention_bias":true})");
  EXPECT_TRUE(llama.attention_bias && llama.attention_output_bias);
  const ModelConfig qwen2 = parsed("{}", "Qwen2ForCausalLM");
  EXPECT_TRUE(qwen2.attention_bias && !qwen2.attention_output_bias &&
              qwen2.qk_norm == QkNorm::kNone);
  const ModelConfig qwen3 = parsed("{}", "Qwen3ForCausalLM");
  EXPECT_TRUE(!qwen3.attention_bias && qwen3.qk_norm == QkNorm::kPerHead);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_EQ(parsed(R"({"head_dim":32})", "Qwen3ForCausalLM").head_dim, 32);
  EXPECT_TRUE(parsed(R"({"mlp_bias":true})").mlp_bias);
}

TEST(ModelConfig, MissingAndWronglyTypedFieldsAreNamed) {
  for (const std::string key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                                "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    EXPECT_TRUE(fails_with(parse("{\"" + key + "\":null}"), {"\"" + key + "\"", "missing"}));
    for (const std::string value : {"\"64\"", "64.5", "true", "[64]", "0", "-1", "1e30"}) {
      EXPECT_TRUE(fails_with(parse("{\"" + key + "\":" + value + "}"),
                             {"config.json: \"" + key + "\"", "an integer"}))
          << value;
    }
  }
  EXPECT_TRUE(fails_with(parse(R"({"hidden_size":9223372036854775807})"), {"hidden_size"}));
  EXPECT_TRUE(fails_with(parse(R"({"rms_norm_eps":"1e-5"})"), {"rms_norm_eps", "a number"}));
  EXPECT_TRUE(fails_with(parse(R"({"rms_norm_eps":-1})"), {"rms_norm_eps", "found -1"}));
  EXPECT_TRUE(fails_with(parse(R"({"rope_theta":0})"), {"rope_theta", "found 0"}));
  EXPECT_TRUE(fails_with(parse(R"({"tie_word_embeddings":1})"), {"tie_word", "true or false"}));
  EXPECT_TRUE(fails_with(parse(R"({"hidden_act":"gelu"})"), {"hidden_act", "silu", "gelu"}));
  EXPECT_TRUE(fails_with(parse(R"({"partial_rotary_factor":0.5})"), {"partial_rotary_factor"}));
  EXPECT_TRUE(fails_with(ModelConfig::parse("[]", "c"), {"c: expected a JSON object"}));
  EXPECT_TRUE(fails_with(ModelConfig::parse("{\"a\"", "c"), {"c: malformed"}));
}

TEST(ModelConfig, SizesMustFitEachOther) {
  EXPECT_TRUE(fails_with(parse(R"({"num_key_value_heads":3})"), {"num_key_value_heads 3"}));
  EXPECT_TRUE(fails_with(parse(R"({"num_key_value_heads":8})"), {"num_key_value_heads 8"}));
  EXPECT_TRUE(fails_with(parse(R"({"head_dim":15})"), {"head_dim", "even", "15"}));
  EXPECT_TRUE(fails_with(parse(R"({"num_attention_heads":6,"num_key_value_heads":2})"),
                         {"head_dim", "missing", "64"}));
  EXPECT_TRUE(parse(R"({"num_attention_heads":6,"head_dim":16,"num_key_value_heads":2})").ok());
  EXPECT_TRUE(fails_with(parse(R"({"head_dim":4194304})"), {"heads", "at most"}));
}

TEST(ModelConfig, SlidingWindowsFollowTheArchitecture) {
  EXPECT_EQ(parsed(R"({"sliding_window":4096})", "MistralForCausalLM").layers[0].window, 4096);
  EXPECT_EQ(parsed("{}", "MistralForCausalLM").layers[0].window, 0);
  EXPECT_EQ(parsed(R"({"sliding_window":4096})").layers[0].window, 0) << "Llama has none";
  EXPECT_EQ(parsed(R"({"sliding_window":8})", "Qwen2ForCausalLM").layers[0].window, 0);
  const auto qwen = [](const std::string& fields) {
    return parse(R"({"use_sliding_window":true,"sliding_window":8,)" + fields + "}",
                 "Qwen2ForCausalLM");
  };
  EXPECT_EQ(qwen(R"("max_window_layers":0)")->layers[0].window, 8);
  // All layers attend to the full context.
  EXPECT_EQ(qwen(R"("max_window_layers":2)")->layers[0].window, 0);
  EXPECT_EQ(qwen(R"("max_window_layers":28)")->layers[0].window, 0);
  const ModelConfig mixed = *qwen(R"("max_window_layers":1)");
  EXPECT_TRUE(mixed.layers[0].window == 0 && mixed.layers[1].window == 8);
  EXPECT_EQ(qwen(R"("layer_types":["sliding_attention","sliding_attention"])")->layers[0].window,
            8);
  EXPECT_EQ(qwen(R"("layer_types":["full_attention","sliding_attention"])")->layers[0].window, 0);
  EXPECT_TRUE(fails_with(qwen(R"("layer_types":["full_attention"])"), {"layer_types", "2"}));
  EXPECT_TRUE(fails_with(qwen(R"("layer_types":["chunked",1])"), {"layer_types", "chunked"}));
}

// As in transformers (MistralConfig, Qwen2Config, Qwen3Config), null means no window and a missing
// field means 4096.
TEST(ModelConfig, AnAbsentSlidingWindowIsTheDefaultOfTransformers) {
  const auto window = [](const std::string& fields, const std::string& architecture) {
    nlohmann::json config = small_config(architecture);
    config.update(
        nlohmann::json::parse(fields));  // The call of update() keeps a null, unlike merge_patch().
    const auto read = ModelConfig::parse(config.dump(), "config.json");
    EXPECT_TRUE(read.ok()) << read.error().message;
    return read.ok() ? read->layers[0].window : -1;
  };
  const std::string longer = R"({"max_position_embeddings":4097,"max_window_layers":0)";
  for (const std::string name : {"MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    SCOPED_TRACE(name);
    const std::string used = longer + R"(,"use_sliding_window":true)";
    EXPECT_EQ(window(used + "}", name), 4096);
    EXPECT_EQ(window(used + R"(,"sliding_window":null})", name), 0);
    EXPECT_EQ(window(used + R"(,"sliding_window":9})", name), 9);
    EXPECT_EQ(window(R"({"use_sliding_window":true,"max_window_layers":0})", name), 0)
        << "its 128 positions are all within the window";
  }
  EXPECT_EQ(window(longer + "}", "LlamaForCausalLM"), 0);
  EXPECT_EQ(window(longer + "}", "Qwen2ForCausalLM"), 0);
  EXPECT_TRUE(
      fails_with(parse(R"({"sliding_window":0})", "MistralForCausalLM"), {"sliding_window"}));
}

// As in transformers, null means as many heads as of queries. A missing field means 8 or 32.
TEST(ModelConfig, MissingKeyValueHeadsAreTheDefaultOfTransformers) {
  const auto heads = [](const std::string& name, bool is_null) {
    nlohmann::json config = small_config(name + "ForCausalLM");
    config["num_attention_heads"] = 64;
    config["head_dim"] = 2;
    config.erase("num_key_value_heads");
    if (is_null) config["num_key_value_heads"] = nullptr;
    const auto read = ModelConfig::parse(config.dump(), "config.json");
    EXPECT_TRUE(read.ok()) << read.error().message;
    return read.ok() ? read->num_key_value_heads : -1;
  };
  const std::map<std::string, int64_t> absent = {
      {"Llama", 64}, {"Mistral", 8}, {"Qwen2", 32}, {"Qwen3", 32}};
  for (const auto& [name, count] : absent) {
    EXPECT_EQ(heads(name, false), count) << name;
    EXPECT_EQ(heads(name, true), 64) << name;
  }
  EXPECT_TRUE(fails_with(parse(R"({"num_key_value_heads":null})", "Qwen2ForCausalLM"),
                         {"4 is no multiple of num_key_value_heads 32", "it is missing"}));
}

TEST(ModelConfig, SpecialTokenIdsAreChecked) {
  const ModelConfig one = parsed(R"({"bos_token_id":1,"eos_token_id":2})");
  EXPECT_EQ(one.bos_token_id, 1);
  EXPECT_EQ(one.eos_token_ids, std::vector<int64_t>{2});
  EXPECT_EQ(parsed(R"({"eos_token_id":[2,7]})").eos_token_ids, (std::vector<int64_t>{2, 7}));
  // A negative id stands for "none".
  EXPECT_EQ(parsed(R"({"eos_token_id":-1,"bos_token_id":-1})").eos_token_ids,
            std::vector<int64_t>());
  EXPECT_EQ(parsed(R"({"eos_token_id":[-1,7]})").eos_token_ids, std::vector<int64_t>{7});
  for (const std::string value : {"\"2\"", "2.0", "[2,null]", "{}", "4294967296"}) {
    EXPECT_TRUE(
        fails_with(parse("{\"eos_token_id\":" + value + "}"), {"eos_token_id", "a token id"}))
        << value;
  }
  EXPECT_TRUE(fails_with(parse(R"({"bos_token_id":[1]})"), {"bos_token_id", "array"}));
}

TEST(ModelConfig, DTypesAreReadUnderBothNames) {
  EXPECT_EQ(parsed(R"({"torch_dtype":"float16"})").dtype, DType::kF16);
  EXPECT_EQ(parsed(R"({"dtype":"float32"})").dtype, DType::kF32);
  EXPECT_EQ(parsed(R"({"dtype":"bfloat16","torch_dtype":"float16"})").dtype, DType::kBF16);
  EXPECT_TRUE(fails_with(parse(R"({"dtype":"float8"})"), {"\"dtype\"", "bfloat16", "float8"}));
  EXPECT_TRUE(fails_with(parse(R"({"torch_dtype":16})"), {"torch_dtype", "a string"}));
}

// Each variant is read as transformers 5.23 reads it (AutoConfig.from_pretrained).
TEST(ModelConfig, HarmlessVariantsAreRead) {
  const ModelConfig plain = parsed("{}");
  for (const std::string fields :
       {R"("rope_scaling":{})", R"("rope_scaling":[])", R"("rope_parameters":{})",
        R"("hidden_act":"swish")", R"("hidden_act":null)", R"("tie_word_embeddings":null)",
        R"("attention_bias":null,"mlp_bias":null)", R"("hidden_size":64.0)",
        R"("max_position_embeddings":1.28e2)", R"("comment":{"__float__":"NaN"})",
        R"("architectures":["LlamaModel"])", R"("architectures":[],"model_type":"llama")"}) {
    const auto read = parse("{" + fields + "}");
    ASSERT_TRUE(read.ok()) << fields << ": " << read.error().message;
    EXPECT_EQ(read->hidden_size, plain.hidden_size);
    EXPECT_EQ(read->max_position_embeddings, plain.max_position_embeddings);
    EXPECT_EQ(read->architecture, plain.architecture);
    EXPECT_EQ(read->ropes[0].scaling.index(), 0u) << fields;
    EXPECT_FALSE(read->tie_word_embeddings || read->attention_bias) << fields;
  }
  EXPECT_TRUE(fails_with(parse(R"({"hidden_act":"SiLU"})"), {"hidden_act", "SiLU"}));
}

TEST(ModelConfig, LoadReadsWhatPythonWrites) {
  const TemporaryFolder folder;
  const std::string config = small_config().dump();
  const auto load = [&](const std::string& more) {
    put(folder / "config.json", config.substr(0, config.size() - 1) + "," + more + "}");
    return ModelConfig::load(folder / "config.json");
  };
  EXPECT_TRUE(load(R"("comment": NaN, "notes": [Infinity, -Infinity])").ok());
  EXPECT_TRUE(load(R"("hidden_size": 64)").ok()) << "a repeated key with the same value";
  EXPECT_TRUE(fails_with(load(R"("hidden_size": 128)"), {"\"hidden_size\"", "64", "128"}));
  EXPECT_TRUE(fails_with(load(R"("rms_norm_eps": NaN)"), {"rms_norm_eps", "NaN"}));
}

TEST(ModelConfig, NamesOfTwoModelsAreAContradiction) {
  EXPECT_TRUE(fails_with(parse(R"({"model_type":"qwen2"})"), {"LlamaForCausalLM", "\"qwen2\""}));
  EXPECT_TRUE(parse(R"({"model_type":"neuronmm_llama"})").ok());
  EXPECT_TRUE(parse(R"({"model_type":"of_somebody"})").ok());
}

TEST(ModelConfig, WeightsOfOtherProgramsAreNamed) {
  EXPECT_TRUE(fails_with(parse(R"({"quantization":{"group_size":64,"bits":4}})"),
                         {"MLX in 4 bits", "mlx_lm.convert", "--dequantize"}));
  for (const std::string method : {"hqq", "exl2", "torchao", "bitsandbytes", "mxfp4"}) {
    EXPECT_TRUE(fails_with(parse(R"({"quantization_config":{"quant_method":")" + method + R"("}})"),
                           {"quant_method", "\"" + method + "\"", "use the original model"}))
        << method;
  }
  // foreign_weights.h decodes these.
  const auto gptq = parse(R"({"quantization_config":{"quant_method":"gptq","bits":4}})");
  ASSERT_TRUE(gptq.ok()) << gptq.error().message;
  EXPECT_FALSE(gptq->quantization.has_value());
  EXPECT_TRUE(fails_with(parse(R"({"quantization_config":{"load_in_8bit":true}})"),
                         {"bitsandbytes", "use the original model"}));
}

TEST(ModelConfig, LoadNamesTheFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(fails_with(ModelConfig::load(folder / "config.json"), {"config.json", "No such"}));
  EXPECT_TRUE(fails_with(ModelConfig::load(folder / "nowhere/config.json"), {"no such folder"}));
  put(folder / "config.json", config_with(R"({"hidden_size":"big"})"));
  EXPECT_TRUE(fails_with(ModelConfig::load(folder / "config.json"),
                         {(folder / "config.json").string(), "hidden_size", "\"big\""}));
}

}  // namespace
}  // namespace neuronmm::io
