#include "text/tokenizer/decoder_steps.h"

#include <optional>
#include <utility>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/byte_token.h"
#include "text/unicode/utf8.h"
#include "text/unicode/utf8_stream.h"

namespace neuronmm::text {
namespace {

class FuseStage : public DecoderStage {
 public:
  void push(std::string_view token) override { emit(token); }
};

class MetaspaceStage : public DecoderStage {
 public:
  MetaspaceStage(const Decoder::StepContext& context, std::string replacement, bool prepended)
      : replacement_(std::move(replacement)), prepended_(prepended), joined_(context.joined) {}
  void push(std::string_view token) override {
    std::string text;
    for (size_t at; (at = token.find(replacement_)) != std::string_view::npos;) {
      text += token.substr(0, at);
      // Encoding put a replacement before the text. The reference removes every replacement of the
      // first token, and so does this stage.
      if (!is_first_ || !prepended_) text += ' ';
      token.remove_prefix(at + replacement_.size());
    }
    text += token;
    is_first_ = joined_;
    emit(text);
  }

 private:
  std::string replacement_;
  bool prepended_, joined_;
  bool is_first_ = true;
};

// Calls `decode` for every token. If the tokens are joined, `decode` gets all of the one token at
// once.
class WholeTokenStage : public DecoderStage {
 public:
  using Decode = std::function<std::string(std::string_view token)>;
  WholeTokenStage(const Decoder::StepContext& context, Decode decode)
      : decode_(std::move(decode)), joined_(context.joined) {}
  void push(std::string_view token) override {
    if (joined_)
      pending_ += token;
    else
      emit(decode_(token));
  }
  void finish() override {
    if (joined_) emit(decode_(std::exchange(pending_, {})));
    DecoderStage::finish();
  }

 private:
  Decode decode_;
  bool joined_;
  std::string pending_;
};

std::string replace_in(const Replacement& replacement, std::string_view token) {
  std::string storage;
  // A token is short but there are many of them, so each gets a small part of the usual budget.
  MatchBudget budget(token.size(), MatchBudget::kTenthOfASecond / 1000);
  return std::string(replacement.apply(token, storage, budget));
}

class ByteFallbackStage : public DecoderStage {
 public:
  explicit ByteFallbackStage(bool early) : early_(early) {}
  void push(std::string_view token) override {
    const std::optional<char> byte = byte_of_token(token);
    if (!byte) {
      end_run();
      return emit(token);
    }
    pending_ += *byte;
    if (early_) emit_characters();
  }
  void finish() override {
    end_run();
    DecoderStage::finish();
  }

 private:
  void emit_characters() {
    while (!pending_.empty()) {
      const Utf8Step step = next_utf8(pending_);
      if (step.kind == Utf8Step::Kind::kIncomplete && !is_broken_) return;
      is_broken_ |= step.kind != Utf8Step::Kind::kCharacter;
      if (is_broken_) return emit_replacements();
      emit(std::string_view(pending_).substr(0, static_cast<size_t>(step.length)));
      pending_.erase(0, static_cast<size_t>(step.length));
    }
  }
  void emit_replacements() {
    for (size_t i = 0; i < pending_.size(); ++i) emit(kReplacementCharacter);
    pending_.clear();
  }
  void end_run() {
    const bool is_utf8 = !is_broken_ && valid_utf8_length(pending_) == std::ssize(pending_);
    if (is_utf8 && !pending_.empty())
      emit(pending_);
    else
      emit_replacements();
    pending_.clear();
    is_broken_ = false;
  }

  const bool early_;
  // A byte of this run belongs to no character.
  bool is_broken_ = false;
  std::string pending_;
};

// Turns bytes into characters for the steps that follow.
class CharactersStage : public DecoderStage {
 public:
  void push(std::string_view bytes) override { emit(stream_.push(bytes)); }
  void finish() override {
    emit(stream_.finish());
    DecoderStage::finish();
  }

 private:
  Utf8Stream stream_;
};

std::string bytes_or_text(std::string_view token) {
  return bytes_of_spelling(token).value_or(std::string(token));
}

class StripStage : public DecoderStage {
 public:
  StripStage(const Decoder::StepContext& context, std::string character, int64_t start,
             int64_t stop)
      : character_(std::move(character)), start_(start), stop_(stop), joined_(context.joined) {}
  void push(std::string_view token) override {
    if (joined_) return push_part(token);
    for (int64_t i = 0; i < start_ && token.starts_with(character_); ++i)
      token.remove_prefix(character_.size());
    for (int64_t i = 0; i < stop_ && token.ends_with(character_); ++i)
      token.remove_suffix(character_.size());
    emit(token);
  }

 private:
  // Handles a part of the one joined token. `start_` counts down until another character comes, and
  // characters that may be stripped from the end are held back.
  void push_part(std::string_view part) {
    for (; start_ > 0 && part.starts_with(character_); --start_)
      part.remove_prefix(character_.size());
    if (!part.empty()) start_ = 0;
    if (stop_ == 0) return emit(part);
    std::string text = std::exchange(pending_, {}).append(part);
    std::string_view rest = text;
    for (int64_t i = 0; i < stop_ && rest.ends_with(character_); ++i) {
      rest.remove_suffix(character_.size());
      pending_ += character_;
    }
    emit(rest);
  }

  std::string character_;
  int64_t start_, stop_;
  bool joined_;
  std::string pending_;
};

// Holds one token back, to know which one is the last.
class WordEndsStage : public DecoderStage {
 public:
  WordEndsStage(Replacement with_space, Replacement with_nothing)
      : with_space_(std::move(with_space)), with_nothing_(std::move(with_nothing)) {}
  void push(std::string_view token) override {
    if (pending_) emit(replace_in(with_space_, *pending_));
    pending_ = token;
  }
  void finish() override {
    if (pending_) emit(replace_in(with_nothing_, *pending_));
    pending_.reset();
    DecoderStage::finish();
  }

 private:
  Replacement with_space_, with_nothing_;
  std::optional<std::string> pending_;
};

// Runs two stages as one.
class PairStage : public DecoderStage {
 public:
  PairStage(std::unique_ptr<DecoderStage> first, std::unique_ptr<DecoderStage> second)
      : first_(std::move(first)), second_(std::move(second)), last_(*this) {
    first_->set_next(second_.get());
    second_->set_next(&last_);
  }
  void push(std::string_view token) override { first_->push(token); }
  void finish() override {
    first_->finish();
    DecoderStage::finish();
  }

 private:
  class LastStage : public DecoderStage {
   public:
    explicit LastStage(PairStage& pair) : pair_(pair) {}
    void push(std::string_view token) override { pair_.emit(token); }
    void finish() override {}

   private:
    PairStage& pair_;
  };
  std::unique_ptr<DecoderStage> first_, second_;
  LastStage last_;
};

}  // namespace

Decoder::Step fuse_step() {
  return [](const Decoder::StepContext&) { return std::make_unique<FuseStage>(); };
}

Decoder::Step metaspace_step(const std::string& replacement, bool prepended) {
  return [=](const Decoder::StepContext& context) {
    return std::make_unique<MetaspaceStage>(context, replacement, prepended);
  };
}

Decoder::Step byte_fallback_step() {
  return [](const Decoder::StepContext& context) -> std::unique_ptr<DecoderStage> {
    // If the tokens are joined, a run of byte tokens is a single token, which must be complete.
    if (!context.joined)
      return std::make_unique<ByteFallbackStage>(context.streaming && context.cuts_do_not_matter);
    return std::make_unique<WholeTokenStage>(context, [](std::string_view token) {
      const std::optional<char> byte = byte_of_token(token);
      if (!byte) return std::string(token);
      const bool is_ascii = static_cast<unsigned char>(*byte) < 0x80;
      return is_ascii ? std::string(1, *byte) : std::string(kReplacementCharacter);
    });
  };
}

Decoder::Step byte_level_step() {
  return [](const Decoder::StepContext& context) -> std::unique_ptr<DecoderStage> {
    auto bytes = std::make_unique<WholeTokenStage>(context, bytes_or_text);
    if (context.is_last) return bytes;
    return std::make_unique<PairStage>(std::move(bytes), std::make_unique<CharactersStage>());
  };
}

Decoder::Step strip_step(const std::string& character, int64_t start, int64_t stop) {
  return [=](const Decoder::StepContext& context) {
    return std::make_unique<StripStage>(context, character, start, stop);
  };
}

Decoder::Step replace_step(const Replacement& replacement) {
  return [replacement](const Decoder::StepContext& context) {
    Decoder::StepContext adjusted = context;
    adjusted.joined &= !replacement.is_of_single_characters();
    return std::make_unique<WholeTokenStage>(
        adjusted, [replacement](std::string_view token) { return replace_in(replacement, token); });
  };
}

Decoder::Step bpe_step(const Replacement& with_space, const Replacement& with_nothing) {
  return [=](const Decoder::StepContext& context) -> std::unique_ptr<DecoderStage> {
    if (!context.joined) return std::make_unique<WordEndsStage>(with_space, with_nothing);
    return std::make_unique<WholeTokenStage>(
        context, [=](std::string_view token) { return replace_in(with_nothing, token); });
  };
}

}  // namespace neuronmm::text
