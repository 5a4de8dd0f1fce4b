#include "model/draft_option.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "help.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io/model_name.h"
#include "io/text_file.h"
#include "message.h"
#include "model/draft_check.h"
#include "model/draft_model.h"
#include "model/ngram_draft.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLookup = "ngram";
// The largest number of tokens that the draft reads at once, as generate() reads prompts. Assumed.
constexpr int64_t kChunkTokens = 512;

bool has_tokenizer(const fs::path& folder) {
  const auto found = io::is_there(folder / "tokenizer.json");
  return found.ok() && *found;
}

Status check_tokens(const fs::path& draft, const io::ModelConfig& config,
                    const model::Transformer& model, const text::Tokenizer* tokenizer) {
  const fs::path& folder = model.checkpoint().folder();
  if (tokenizer == nullptr && !has_tokenizer(folder)) {
    if (config.vocab_size == model.config().vocab_size) return {};
    return fail("{}: expected the vocab_size of {}, {}, found {}", draft.string(), folder.string(),
                model.config().vocab_size, config.vocab_size);
  }
  NMM_ASSIGN(const text::Tokenizer of_draft, text::Tokenizer::load(draft));
  if (tokenizer != nullptr) return model::check_same_tokens(*tokenizer, folder, of_draft, draft);
  NMM_ASSIGN(const text::Tokenizer own, text::Tokenizer::load(folder));
  return model::check_same_tokens(own, folder, of_draft, draft);
}

Result<model::Transformer> load_transformer(const fs::path& folder, const model::Transformer& model,
                                            const text::Tokenizer* tokenizer) {
  if (!io::may_be_model(folder))
    return fail("{}: expected a model or {} for a lookup in the text; there is no such folder{}",
                folder.string(), kLookup, io::missing_model_hint(folder.string()));
  NMM_ASSIGN(auto config, io::ModelConfig::load(folder / "config.json"));
  NMM_TRY(check_tokens(folder, config, model, tokenizer));
  NMM_ASSIGN(auto checkpoint, io::Checkpoint::open(folder));
  NMM_TRY(model::check_one_rope_table(config, folder));
  NMM_TRY(model::check_not_larger(model.checkpoint(), checkpoint));
  return model::Transformer::load(std::move(config), std::move(checkpoint), model.backend());
}

}  // namespace

CLI::Option* add_draft_option(CLI::App* command, std::string& draft) {
  return command
      ->add_option("--draft", draft, "Let a smaller model propose tokens; ngram needs none")
      ->type_name("DIR")
      ->group(kSpeed);
}

int64_t LoadedDraft::context_tokens(const model::Transformer& model) const {
  const int64_t of_model = model.config().max_position_embeddings;
  return transformer ? std::min(of_model, transformer->config().max_position_embeddings) : of_model;
}

Result<LoadedDraft> load_draft(const std::string& option, const model::Transformer& model,
                               const text::Tokenizer* tokenizer) {
  LoadedDraft draft = {option, nullptr};
  if (option.empty() || option == kLookup) return draft;
  auto loaded = load_transformer(option, model, tokenizer);
  if (!loaded.ok()) return Error{"--draft: " + loaded.error().message, loaded.error().kind};
  draft.transformer = std::make_unique<model::Transformer>(std::move(loaded).value());
  const int64_t context = draft.context_tokens(model);
  if (context < model.config().max_position_embeddings)
    print_message("--draft {}: what follows after {} tokens, its context, is written without it\n",
                  option, context);
  return draft;
}

Status check_draft_context(const LoadedDraft& draft, const model::Transformer& model,
                           const std::string& what, int64_t tokens) {
  const int64_t context = draft.context_tokens(model);
  if (draft.transformer == nullptr || tokens <= context) return {};
  return fail(
      "--draft: {}: expected a draft with a context of at least {} tokens, which {}, found {}: "
      "leave --draft out, or choose another one",
      draft.option, tokens, what, context);
}

std::unique_ptr<model::Speculation> make_speculation(const LoadedDraft& draft,
                                                     const model::Transformer& model) {
  if (draft.option.empty()) return nullptr;
  const int64_t vocabulary = model.config().vocab_size;
  std::unique_ptr<model::Draft> proposing;
  if (draft.lookup()) {
    proposing = std::make_unique<model::NgramDraft>(vocabulary);
  } else {
    proposing = std::make_unique<model::DraftModel>(
        *draft.transformer, model::make_draft_caches(*draft.transformer), vocabulary, kChunkTokens);
  }
  return std::make_unique<model::Speculation>(std::move(proposing), model.backend());
}

void print_draft_failure(const std::string& option, const std::string& reason) {
  print_message("--draft {}: the draft has failed, and texts go on without it: {}\n", option,
                reason);
}

}  // namespace neuronmm::apps
