#include "model/bits_flags.h"

namespace neuronmm::apps {

CLI::Option* add_bits_flags(CLI::App* command, BitsFlags& flags, const std::string& help) {
  CLI::Option* const bits =
      command->add_option("--bits", flags.bits, help)->check(CLI::IsMember({8, 6, 4}));
  command
      ->add_option("--group", flags.group,
                   "number of weights of a row that share a zero point, for 4 bits: 16 (default), "
                   "or 32, which saves a quarter of a bit per weight and is less exact")
      ->check(CLI::IsMember({16, 32}));
  command
      ->add_option("--lm-head-bits", flags.lm_head_bits,
                   "bits of the LM head: 8, 6 or 4. Default: those of --bits, but 6 if they are 4")
      ->check(CLI::IsMember({8, 6, 4}));
  command
      ->add_option("--embedding-bits", flags.embedding_bits,
                   "round the embedding table to 8, 6 or 4 bits, or leave it with 16 (default: 8; "
                   "those of the LM head if it is the table)")
      ->check(CLI::IsMember({16, 8, 6, 4}));
  return bits;
}

compress::WeightFormats weight_formats(const BitsFlags& flags) {
  const auto formats = compress::weight_formats(flags.bits, flags.group, flags.lm_head_bits,
                                                OptionNames::kFlags, flags.embedding_bits);
  if (!formats.ok()) throw CLI::ValidationError(formats.error().message);
  return *formats;
}

}  // namespace neuronmm::apps
