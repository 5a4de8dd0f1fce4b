#include "text/tokenizer/bpe_entries.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "io/json_builder.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;

// Splits "a b" at its only space, since tokens in this form contain none. Returns false if the line
// has no space or several.
bool split_merge(std::string_view line, BpeEntries::Merge& merge) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    return false;
  merge = {line.substr(0, space), line.substr(space + 1)};
  return true;
}

// Passes the parser's events to a JsonBuilder, except for those inside model.vocab and
// model.merges.
class Reader : public nlohmann::json_sax<json> {
 public:
  Reader(BpeEntries& entries, const std::string& source) : entries_(entries), source_(source) {}

  Result<json> parse(std::string_view text) {
    if (json::sax_parse(text, this)) return std::move(builder_.value());
    if (!error_.empty()) return fail("{}: {}", source_, error_);
    return fail("{}: malformed JSON: {}", source_, builder_.error());
  }

  bool null() override { return in_entries() ? wrong_value(nullptr) : builder_.null(); }
  bool boolean(bool value) override {
    return in_entries() ? wrong_value(value) : builder_.boolean(value);
  }
  bool number_integer(int64_t value) override {
    if (!in_entries()) return builder_.number_integer(value);
    return section_ == Section::kVocab ? add_token(value) : wrong_value(value);
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_entries()) return builder_.number_unsigned(value);
    if (section_ != Section::kVocab) return wrong_value(value);
    constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
    return add_token(static_cast<int64_t>(std::min(value, kLargest)));
  }
  bool number_float(double value, const std::string& text) override {
    return in_entries() ? wrong_value(value) : builder_.number_float(value, text);
  }
  bool string(std::string& value) override {
    if (!in_entries()) return builder_.string(value);
    if (section_ == Section::kVocab) return wrong_value(value);
    if (section_ == Section::kPair) return add_to_pair(value);
    BpeEntries::Merge merge;
    if (!split_merge(value, merge)) return wrong_value(value);
    return add_merge(merge);
  }
  bool binary(json::binary_t& value) override { return builder_.binary(value); }

  bool start_object(size_t size) override {
    if (in_entries()) return wrong_value(json::object());
    if (depth_ == 2 && is_model_ && key_ == "vocab") section_ = Section::kVocab;
    ++depth_;
    return builder_.start_object(size);
  }
  bool end_object() override {
    section_ = Section::kOther;
    --depth_;
    return builder_.end_object();
  }
  bool start_array(size_t size) override {
    if (section_ == Section::kMerges) {
      section_ = Section::kPair;
      pair_size_ = 0;
      return true;
    }
    if (in_entries()) return wrong_value(json::array());
    if (depth_ == 2 && is_model_ && key_ == "merges") section_ = Section::kMerges;
    ++depth_;
    return builder_.start_array(size);
  }
  bool end_array() override {
    if (section_ == Section::kPair) {
      section_ = Section::kMerges;
      if (pair_size_ != 2) return wrong_pair();
      return add_merge({pair_[0], pair_[1]});
    }
    section_ = Section::kOther;
    --depth_;
    return builder_.end_array();
  }
  bool key(std::string& key) override {
    if (section_ == Section::kVocab) {
      token_ = key;
      return true;
    }
    if (depth_ == 1) is_model_ = key == "model";
    if (depth_ <= 2) key_ = key;
    return builder_.key(key);
  }
  bool parse_error(size_t at, const std::string& token, const json::exception& error) override {
    return builder_.parse_error(at, token, error);
  }

 private:
  enum class Section { kOther, kVocab, kMerges, kPair };

  bool in_entries() const { return section_ != Section::kOther; }
  bool add_token(int64_t id) {
    entries_.vocab.emplace_back(entries_.texts.store(token_), id);
    return true;
  }
  bool add_to_pair(const std::string& token) {
    if (pair_size_ < 2) pair_[pair_size_] = token;
    ++pair_size_;
    return true;
  }
  bool add_merge(const BpeEntries::Merge& merge) {
    entries_.merges.emplace_back(entries_.texts.store(merge.first),
                                 entries_.texts.store(merge.second));
    return true;
  }
  bool wrong_value(const json& value) {
    if (section_ == Section::kPair) return wrong_pair();
    error_ = section_ == Section::kVocab
                 ? fmt::format("model.vocab: {:?}: expected an id, found {}", token_,
                               io::describe_json(value))
                 : wrong_merge(io::describe_json(value));
    return false;
  }
  bool wrong_pair() {
    error_ = wrong_merge("an array that is no pair of strings");
    return false;
  }
  std::string wrong_merge(std::string_view found) const {
    return fmt::format("model.merges[{}]: expected \"a b\" or [\"a\", \"b\"], found {}",
                       entries_.merges.size(), found);
  }

  BpeEntries& entries_;
  const std::string& source_;
  io::JsonBuilder builder_;
  Section section_ = Section::kOther;
  // The number of objects and arrays around the current place, not counting those inside entries.
  int64_t depth_ = 0;
  bool is_model_ = false;  // The parser is inside the file's "model".
  std::string key_, token_, error_;
  std::string pair_[2];
  size_t pair_size_ = 0;
};

}  // namespace

Result<json> parse_with_entries(std::string_view text, const std::string& source,
                                BpeEntries& entries) {
  NMM_ASSIGN(json root, Reader(entries, source).parse(text));
  if (!root.is_object())
    return fail("{}: expected a JSON object, found {}", source, io::describe_json(root));
  return root;
}

}  // namespace neuronmm::text
