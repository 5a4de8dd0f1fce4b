#include "model/reconstruct_option.h"

#include "compress/reconstruction/settings.h"
#include "help.h"

namespace neuronmm::apps {
namespace {

// Returns an error text unless it is auto, off or a number of tokens.
std::string check_reconstruct(const std::string& text) {
  const auto parsed = compress::parse_reconstruct(text);
  return parsed.ok() ? std::string() : parsed.error().message;
}

}  // namespace

void add_reconstruct_option(CLI::App* command, std::string& value) {
  command
      ->add_option("--reconstruct", value, "Let layers learn from TOKENS of the text, auto or off")
      ->check(check_reconstruct, "", "auto, off or a number")
      ->type_name("TOKENS")
      ->default_str("auto")
      ->group(kQuality);
}

}  // namespace neuronmm::apps
