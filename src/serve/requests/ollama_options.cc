#include "serve/requests/ollama_options.h"

#include <array>

namespace neuronmm::serve {
namespace {

// Bounds of numbers without a natural limit. Assumed: no useful value reaches them.
constexpr int64_t kMostCount = int64_t{1} << 30;
constexpr double kMostPenalty = 100.0;

// An option that is not supported, with the value that switches it off.
struct OffValue {
  const char* name;
  double value;
};
constexpr std::array kUnsupported = {OffValue{"tfs_z", 1.0}, OffValue{"mirostat", 0.0}};

std::vector<RequestField> sampling_options() {
  using Field = RequestField;
  return {
      Field::number("temperature", 0.0, 100.0,
                    "Divides the logits before a token is drawn; 0 always takes the likeliest "
                    "token. By default that of the model's generation_config.json, else 0.8"),
      Field::integer("top_k", -1, kMostCount,
                     "Draws only from this many likeliest tokens; -1 and 0 are no limit. By "
                     "default that of the model's generation_config.json, else 40"),
      Field::number("top_p", 0.0, 1.0,
                    "Draws only from the likeliest tokens whose probabilities add up to this. By "
                    "default that of the model's generation_config.json, else 0.9"),
      Field::number("min_p", 0.0, 1.0,
                    "Leaves out tokens whose probability is less than this share of the "
                    "likeliest token's. By default that of the model's generation_config.json, "
                    "else 0"),
      Field::number(
          "repeat_penalty", 0.01, 100.0,
          "Makes the last repeat_last_n tokens of the prompt and the answer less likely if "
          "above 1. By default the model's repetition_penalty for all tokens, else 1"),
      Field::integer("repeat_last_n", -1, kMostCount,
                     "How many last tokens repeat_penalty looks at; -1 means all, and 0 none")
          .by_default(64),
      Field::number("typical_p", 0.0, 1.0,
                    "Draws only from the tokens whose information is nearest to its expectation, "
                    "until their probabilities add up to this; 1 is no limit")
          .by_default(1.0),
      Field::number("presence_penalty", -kMostPenalty, kMostPenalty,
                    "Subtracted from the logit of every token that the answer already has")
          .by_default(0.0),
      Field::number("frequency_penalty", -kMostPenalty, kMostPenalty,
                    "Subtracted from the logit of a token once for each time that the answer "
                    "already has it")
          .by_default(0.0),
      Field::integer("seed", INT64_MIN, INT64_MAX,
                     "Seed of the random draws; -1 is random. By default random"),
      Field::integer("num_predict", -2, INT64_MAX,
                     "Largest number of tokens of the answer; -2, -1 and 0 are no limit. By "
                     "default max_new_tokens of the model's generation_config.json, else no limit"),
      Field::other("stop", nullable_schema(stop_strings_schema()),
                   "Texts that end the answer before the first place where one of them occurs"),
  };
}

std::vector<RequestField> unsupported_options() {
  std::vector<RequestField> fields;
  for (const OffValue& option : kUnsupported)
    fields.push_back(RequestField::number(option.name, -kMostPenalty, kMostPenalty,
                                          fmt::format("Not supported, except {}, which switches "
                                                      "it off",
                                                      option.value)));
  fields.push_back(RequestField::boolean(
      "penalize_newline", "Whether repeat_penalty applies to line ends, too; only true"));
  return fields;
}

const RequestTable& options_table() {
  // The context belongs to the server (--context-length). num_keep says what stays if a context is
  // shifted, which this server never does.
  static const RequestTable table = {sampling_options(), unsupported_options(),
                                     RequestField::ignored({"num_ctx",
                                                            "num_keep",
                                                            "num_batch",
                                                            "num_gpu",
                                                            "main_gpu",
                                                            "num_thread",
                                                            "num_gqa",
                                                            "use_mmap",
                                                            "use_mlock",
                                                            "numa",
                                                            "low_vram",
                                                            "f16_kv",
                                                            "logits_all",
                                                            "vocab_only",
                                                            "embedding_only",
                                                            "draft_num_predict",
                                                            "mirostat_tau",
                                                            "mirostat_eta",
                                                            "rope_frequency_base",
                                                            "rope_frequency_scale"})};
  return table;
}

void read_repeat_penalty(FieldReader& options, GenerationParameters& parameters) {
  parameters.repeat_penalty = options.number("repeat_penalty");
  parameters.repeat_last_n = options.integer_or_default("repeat_last_n");
  const auto newlines = options.boolean("penalize_newline");
  const bool penalizes = parameters.repeat_penalty.value_or(1.0) != 1.0;
  if (penalizes && !newlines.value_or(true))
    options.add_mismatch("penalize_newline", "true beside a repeat_penalty");
}

void refuse_unless_off(FieldReader& options) {
  for (const OffValue& option : kUnsupported) {
    if (options.number(option.name).value_or(option.value) != option.value)
      options.add_mismatch(option.name, fmt::format("{}, which switches it off: this server does "
                                                    "not know how to sample in this way",
                                                    option.value));
  }
}

std::vector<std::string> read_stop_option(FieldReader& options) {
  const Json* list = options.array("stop");
  if (list == nullptr) return {};
  std::vector<std::string> stops;
  bool good = list->size() <= kMostStopStrings;
  for (const Json& stop : *list) {
    good = good && stop.is_string() && stop.get_ref<const std::string&>().size() <= kMostStopBytes;
    if (good && stop != "") stops.push_back(stop.get<std::string>());
  }
  if (!good)
    options.add_mismatch("stop", fmt::format("at most {} strings of at most {} bytes",
                                             kMostStopStrings, kMostStopBytes));
  return stops;
}

}  // namespace

RequestField ollama_options_field() {
  return RequestField::object(
      "options", options_table().fields(),
      "How the answer is drawn, by the names of Ollama's options. Another name is an error");
}

void read_ollama_options(FieldReader& fields, GenerationParameters& parameters) {
  auto options = fields.inner("options");
  if (!options) return;
  for (const std::string& name : options->unknown())
    options->add_error(name.substr(0, 64), "Ollama has no such option");
  parameters.temperature = options->number("temperature");
  parameters.top_k = options->integer("top_k");
  if (parameters.top_k == -1) parameters.top_k = 0;
  parameters.top_p = options->number("top_p");
  parameters.min_p = options->number("min_p");
  parameters.typical_p = options->number_or_default("typical_p");
  read_repeat_penalty(*options, parameters);
  parameters.presence_penalty = options->number_or_default("presence_penalty");
  parameters.frequency_penalty = options->number_or_default("frequency_penalty");
  const auto seed = options->integer("seed");
  if (seed && seed != -1) parameters.seed = static_cast<uint64_t>(*seed);
  const auto limit = options->integer("num_predict");
  if (limit) parameters.max_tokens = *limit > 0 ? *limit : kNoTokenLimit;
  parameters.stop = read_stop_option(*options);
  refuse_unless_off(*options);
}

}  // namespace neuronmm::serve
