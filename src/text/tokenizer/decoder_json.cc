#include "text/tokenizer/decoder_json.h"

#include <utility>

#include "text/tokenizer/component_json.h"
#include "text/tokenizer/decoder_steps.h"

namespace neuronmm::text {
namespace {

using Joins = Decoder::Joins;

// The largest number of steps. Published decoders have at most five.
constexpr int64_t kMaxDecoders = 64;

Status read_replace(const io::JsonFields& fields, Decoder& decoder) {
  NMM_ASSIGN(const Pattern pattern, read_pattern(fields));
  NMM_ASSIGN(auto content, fields.string("content"));
  if (!content) return fields.missing("content");
  const auto replacement = Replacement::compile(pattern.text, pattern.kind, *std::move(content));
  if (!replacement.ok()) return pattern_error(fields, pattern, replacement.error());
  decoder.add(replace_step(replacement.value()));
  return {};
}

Status read_strip(const io::JsonFields& fields, Decoder& decoder) {
  NMM_ASSIGN(const std::string character, read_character(fields, "content"));
  NMM_ASSIGN(const auto start, fields.integer("start"));
  NMM_ASSIGN(const auto stop, fields.integer("stop"));
  if (start.value_or(0) < 0) return fields.wrong("start", "a count");
  if (stop.value_or(0) < 0) return fields.wrong("stop", "a count");
  decoder.add(strip_step(character, start.value_or(0), stop.value_or(0)));
  return {};
}

Status read_bpe_decoder(const io::JsonFields& fields, Decoder& decoder) {
  NMM_ASSIGN(auto suffix, fields.string("suffix"));
  const Pattern pattern{std::move(suffix).value_or("</w>"), SplitRegex::Kind::kLiteral};
  const auto with_space = Replacement::compile(pattern.text, pattern.kind, " ");
  if (!with_space.ok()) return pattern_error(fields, pattern, with_space.error());
  NMM_ASSIGN(const auto with_nothing, Replacement::compile(pattern.text, pattern.kind, ""));
  decoder.add(bpe_step(with_space.value(), with_nothing));
  return {};
}

Status read_step(const Component& step, Decoder& decoder) {
  if (step.type == "Replace") return read_replace(step.fields, decoder);
  if (step.type == "Strip") return read_strip(step.fields, decoder);
  if (step.type == "BPEDecoder") return read_bpe_decoder(step.fields, decoder);
  if (step.type == "Metaspace") {
    NMM_ASSIGN(const Metaspace metaspace, read_metaspace(step.fields));
    decoder.add(metaspace_step(metaspace.replacement, metaspace.prepend_scheme != "never"));
  } else if (step.type == "ByteFallback") {
    decoder.add(byte_fallback_step());
  } else if (step.type == "Fuse") {
    decoder.add(fuse_step(), Joins::kRegardlessOfCuts);
  } else if (step.type == "ByteLevel") {
    decoder.add(byte_level_step(), Joins::kAll);
  } else {
    return unsupported(
        step, "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence or Strip");
  }
  return {};
}

}  // namespace

Status read_decoder(const nlohmann::json& value, const std::string& source,
                    TokenizerDefinition& definition) {
  int64_t steps = 0, byte_levels = 0;
  NMM_TRY(for_each_component(value, source, "decoders", [&](const Component& step) -> Status {
    if (++steps > kMaxDecoders) return fail("{}: more than {} steps", source, kMaxDecoders);
    if (step.type == "ByteLevel") ++byte_levels;
    return read_step(step, definition.decoder);
  }));
  // An empty Sequence joins the tokens without spaces, unlike a tokenizer without a decoder.
  if (steps == 0) definition.decoder.add(fuse_step(), Joins::kRegardlessOfCuts);
  definition.decodes_bytes = steps == 1 && byte_levels == 1;
  return {};
}

}  // namespace neuronmm::text
