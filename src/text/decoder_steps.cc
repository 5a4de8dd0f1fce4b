#include "text/decoder_steps.h"

#include <optional>
#include <utility>

#include "text/byte_level.h"
#include "text/byte_token.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"

namespace neuronmm::text {
namespace {

class FuseStage : public DecoderStage {
 public:
  void push(std::string_view token) override { hand_on(token); }
};

class MetaspaceStage : public DecoderStage {
 public:
  MetaspaceStage(const Decoder::Place& place, std::string replacement, bool prepended)
      : replacement_(std::move(replacement)), prepended_(prepended), joined_(place.joined) {}
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
    hand_on(text);
  }

 private:
  std::string replacement_;
  bool prepended_, joined_;
  bool is_first_ = true;
};

// Calls `decode` for every token. If the tokens are joined, `decode` gets all of the one token at
// once.
class WholeStage : public DecoderStage {
 public:
  using Decode = std::function<std::string(std::string_view token)>;
  WholeStage(const Decoder::Place& place, Decode decode)
      : decode_(std::move(decode)), joined_(place.joined) {}
  void push(std::string_view token) override {
    if (joined_)
      held_ += token;
    else
      hand_on(decode_(token));
  }
  void finish() override {
    if (joined_) hand_on(decode_(std::exchange(held_, {})));
    DecoderStage::finish();
  }

 private:
  Decode decode_;
  bool joined_;
  std::string held_;
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
      return hand_on(token);
    }
    held_ += *byte;
    if (early_) give_characters();
  }
  void finish() override {
    end_run();
    DecoderStage::finish();
  }

 private:
  void give_characters() {
    while (!held_.empty()) {
      const Utf8Step step = next_utf8(held_);
      if (step.kind == Utf8Step::Kind::kIncomplete && !is_broken_) return;
      is_broken_ |= step.kind != Utf8Step::Kind::kCharacter;
      if (is_broken_) return give_replacements();
      hand_on(std::string_view(held_).substr(0, static_cast<size_t>(step.length)));
      held_.erase(0, static_cast<size_t>(step.length));
    }
  }
  void give_replacements() {
    for (size_t i = 0; i < held_.size(); ++i) hand_on(kReplacementCharacter);
    held_.clear();
  }
  void end_run() {
    const bool is_utf8 = !is_broken_ && valid_utf8_length(held_) == std::ssize(held_);
    if (is_utf8 && !held_.empty())
      hand_on(held_);
    else
      give_replacements();
    held_.clear();
    is_broken_ = false;
  }

  const bool early_;
  // A byte of this run belongs to no character.
  bool is_broken_ = false;
  std::string held_;
};

// Turns bytes into characters for the steps that follow.
class CharactersStage : public DecoderStage {
 public:
  void push(std::string_view bytes) override { hand_on(stream_.push(bytes)); }
  void finish() override {
    hand_on(stream_.finish());
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
  StripStage(const Decoder::Place& place, std::string character, int64_t start, int64_t stop)
      : character_(std::move(character)), start_(start), stop_(stop), joined_(place.joined) {}
  void push(std::string_view token) override {
    if (joined_) return push_part(token);
    for (int64_t i = 0; i < start_ && token.starts_with(character_); ++i)
      token.remove_prefix(character_.size());
    for (int64_t i = 0; i < stop_ && token.ends_with(character_); ++i)
      token.remove_suffix(character_.size());
    hand_on(token);
  }

 private:
  // Handles a part of the one joined token. `start_` counts down until another character comes, and
  // characters that may be stripped from the end are held back.
  void push_part(std::string_view part) {
    for (; start_ > 0 && part.starts_with(character_); --start_)
      part.remove_prefix(character_.size());
    if (!part.empty()) start_ = 0;
    if (stop_ == 0) return hand_on(part);
    std::string text = std::exchange(held_, {}).append(part);
    std::string_view rest = text;
    for (int64_t i = 0; i < stop_ && rest.ends_with(character_); ++i) {
      rest.remove_suffix(character_.size());
      held_ += character_;
    }
    hand_on(rest);
  }

  std::string character_;
  int64_t start_, stop_;
  bool joined_;
  std::string held_;
};

// Holds one token back, to know which one is the last.
class WordEndsStage : public DecoderStage {
 public:
  WordEndsStage(Replacement with_space, Replacement with_nothing)
      : with_space_(std::move(with_space)), with_nothing_(std::move(with_nothing)) {}
  void push(std::string_view token) override {
    if (held_) hand_on(replace_in(with_space_, *held_));
    held_ = token;
  }
  void finish() override {
    if (held_) hand_on(replace_in(with_nothing_, *held_));
    held_.reset();
    DecoderStage::finish();
  }

 private:
  Replacement with_space_, with_nothing_;
  std::optional<std::string> held_;
};

// Runs two stages as one.
class PairStage : public DecoderStage {
 public:
  PairStage(std::unique_ptr<DecoderStage> first, std::unique_ptr<DecoderStage> second)
      : first_(std::move(first)), second_(std::move(second)), end_(*this) {
    first_->set_next(second_.get());
    second_->set_next(&end_);
  }
  void push(std::string_view token) override { first_->push(token); }
  void finish() override {
    first_->finish();
    DecoderStage::finish();
  }

 private:
  class End : public DecoderStage {
   public:
    explicit End(PairStage& pair) : pair_(pair) {}
    void push(std::string_view token) override { pair_.hand_on(token); }
    void finish() override {}

   private:
    PairStage& pair_;
  };
  std::unique_ptr<DecoderStage> first_, second_;
  End end_;
};

}  // namespace

Decoder::Step fuse_step() {
  return [](const Decoder::Place&) { return std::make_unique<FuseStage>(); };
}

Decoder::Step metaspace_step(const std::string& replacement, bool prepended) {
  return [=](const Decoder::Place& place) {
    return std::make_unique<MetaspaceStage>(place, replacement, prepended);
  };
}

Decoder::Step byte_fallback_step() {
  return [](const Decoder::Place& place) -> std::unique_ptr<DecoderStage> {
    // If the tokens are joined, a run of byte tokens is a single token, which must be complete.
    if (!place.joined)
      return std::make_unique<ByteFallbackStage>(place.streaming && place.cut_at_will);
    return std::make_unique<WholeStage>(place, [](std::string_view token) {
      const std::optional<char> byte = byte_of_token(token);
      if (!byte) return std::string(token);
      const bool is_ascii = static_cast<unsigned char>(*byte) < 0x80;
      return is_ascii ? std::string(1, *byte) : std::string(kReplacementCharacter);
    });
  };
}

Decoder::Step byte_level_step() {
  return [](const Decoder::Place& place) -> std::unique_ptr<DecoderStage> {
    auto bytes = std::make_unique<WholeStage>(place, bytes_or_text);
    if (place.is_last) return bytes;
    return std::make_unique<PairStage>(std::move(bytes), std::make_unique<CharactersStage>());
  };
}

Decoder::Step strip_step(const std::string& character, int64_t start, int64_t stop) {
  return [=](const Decoder::Place& place) {
    return std::make_unique<StripStage>(place, character, start, stop);
  };
}

Decoder::Step replace_step(const Replacement& replacement) {
  return [replacement](const Decoder::Place& place) {
    Decoder::Place own = place;
    own.joined &= !replacement.is_of_single_characters();
    return std::make_unique<WholeStage>(
        own, [replacement](std::string_view token) { return replace_in(replacement, token); });
  };
}

Decoder::Step bpe_step(const Replacement& with_space, const Replacement& with_nothing) {
  return [=](const Decoder::Place& place) -> std::unique_ptr<DecoderStage> {
    if (!place.joined) return std::make_unique<WordEndsStage>(with_space, with_nothing);
    return std::make_unique<WholeStage>(
        place, [=](std::string_view token) { return replace_in(with_nothing, token); });
  };
}

}  // namespace neuronmm::text
