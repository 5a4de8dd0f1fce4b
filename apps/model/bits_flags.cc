#include "model/bits_flags.h"

#include "help.h"

namespace neuronmm::apps {

CLI::Option* add_bits_flags(CLI::App* command, BitsFlags& flags, const std::string& help) {
  CLI::Option* const bits = command->add_option("--bits", flags.bits, help)
                                ->check(CLI::IsMember({8, 6, 4}))
                                ->group(kQuality);
  command->add_option("--group", flags.group, "Let 16 or 32 weights share a zero point")
      ->check(CLI::IsMember({16, 32}))
      ->default_str("16")
      ->group(kAdvanced);
  command->add_option("--lm-head-bits", flags.lm_head_bits, "Use 8, 6 or 4 bits for the LM head")
      ->check(CLI::IsMember({8, 6, 4}))
      ->default_str("--bits, or 6")
      ->group(kAdvanced);
  command
      ->add_option("--embedding-bits", flags.embedding_bits, "Use 16, 8, 6 or 4 bits for the table")
      ->check(CLI::IsMember({16, 8, 6, 4}))
      ->default_str("8")
      ->group(kAdvanced);
  return bits;
}

compress::WeightFormats weight_formats(const BitsFlags& flags) {
  const auto formats = compress::weight_formats(flags.bits, flags.group, flags.lm_head_bits,
                                                OptionNames::kFlags, flags.embedding_bits);
  if (!formats.ok()) throw CLI::ValidationError(formats.error().message);
  return *formats;
}

}  // namespace neuronmm::apps
