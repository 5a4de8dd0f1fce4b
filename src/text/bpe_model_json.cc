#include "text/bpe_model_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;
using Pair = std::pair<std::string_view, std::string_view>;

// Two tokens and one space: a line of merges.txt, or the older form in tokenizer.json. A token
// cannot contain a space, which byte-level spelling writes as another character.
std::optional<Pair> pair_of_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    return {};
  return Pair(line.substr(0, space), line.substr(space + 1));
}

std::optional<Pair> pair_of_json(const json& merge) {
  if (merge.is_string()) return pair_of_line(merge.get_ref<const std::string&>());
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
    return {};
  return Pair(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
}

// Both halves and the result must be tokens: ids are all that merging works with.
Status add_merge(const Vocabulary& vocabulary, Pair pair, int64_t rank, MergeTable& merges) {
  const auto [left, right] = pair;
  const std::string merged = std::string(left).append(right);
  const auto left_id = vocabulary.find(left), right_id = vocabulary.find(right),
             merged_id = vocabulary.find(merged);
  if (!left_id || !right_id || !merged_id) {
    const std::string_view unknown = !left_id ? left : !right_id ? right : merged;
    return fail("the merge of {:?} and {:?}: {:?} is not in the vocabulary", left, right, unknown);
  }
  merges.insert(*left_id, *right_id, {static_cast<int32_t>(rank), *merged_id});
  return {};
}

// The rank of a merge is its place in the list: lower ranks are merged first.
Result<MergeTable> read_merges(const json& list, const std::string& source,
                               const Vocabulary& vocabulary) {
  MergeTable merges(std::ssize(list));
  int64_t rank = 0;
  for (const json& merge : list) {
    const std::optional<Pair> pair = pair_of_json(merge);
    if (!pair)
      return fail("{}[{}]: expected \"a b\" or [\"a\", \"b\"], found {}", source, rank,
                  io::describe_json(merge));
    if (const Status added = add_merge(vocabulary, *pair, rank, merges); !added.ok())
      return fail("{}[{}]: {}", source, rank, added.error().message);
    ++rank;
  }
  return merges;
}

// Then no text can meet an unknown token, and what the file says about it does not matter.
bool has_all_bytes(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    if (!vocabulary.find_word({&character, 1})) return false;
  }
  return true;
}

// The variants of BPE that tokenizer.json can ask for and Bpe does not do.
Status check_variant(const io::JsonFields& fields, const Vocabulary& vocabulary) {
  NMM_ASSIGN(const auto dropout, fields.number("dropout"));
  if (dropout.value_or(0) != 0) return fields.wrong("dropout", "none");
  NMM_ASSIGN(const auto byte_fallback, fields.boolean("byte_fallback"));
  if (byte_fallback.value_or(false)) return fields.wrong("byte_fallback", "false");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    NMM_ASSIGN(const auto affix, fields.string(key));
    if (!affix.value_or("").empty()) return fields.wrong(key, "none");
  }
  // Where every byte is a token, nothing is unknown.
  NMM_ASSIGN(const auto unknown, fields.string("unk_token"));
  if (!unknown.value_or("").empty() && !has_all_bytes(vocabulary))
    return fields.wrong("unk_token", "none, since not every byte is a token,");
  return {};
}

}  // namespace

// "vocab": the spelling of every token and its id.
Status read_vocab(const json& vocab, const std::string& source, Vocabulary& vocabulary) {
  if (!vocab.is_object())
    return fail("{}: expected an object, found {}", source, io::describe_json(vocab));
  if (vocab.empty()) return fail("{}: expected tokens, found none", source);
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer())
      return fail("{}: {:?}: expected an id, found {}", source, token, io::describe_json(id));
    if (const Status added = vocabulary.add_spelling(token, id.get<int64_t>()); !added.ok())
      return fail("{}: {}", source, added.error().message);
  }
  return {};
}

Status read_bpe_model(const json& model, const std::string& source,
                      TokenizerDefinition& definition) {
  if (!model.is_object())
    return fail("{}: expected an object, found {}", source, io::describe_json(model));
  const io::JsonFields fields(model, source);
  NMM_ASSIGN(const auto type, fields.string("type"));
  // GPT-2's published file names no type.
  if (type.value_or("BPE") != "BPE") return fields.wrong("type", "\"BPE\" (byte-level)");
  const json* vocab = fields.find("vocab");
  if (vocab == nullptr) return fields.missing("vocab");
  NMM_TRY(read_vocab(*vocab, source + ".vocab", definition.vocabulary));
  NMM_TRY(check_variant(fields, definition.vocabulary));
  const json* merges = fields.find("merges");
  if (merges == nullptr) return fields.missing("merges");
  if (!merges->is_array()) return fields.wrong("merges", "an array");
  NMM_ASSIGN(definition.merges, read_merges(*merges, source + ".merges", definition.vocabulary));
  NMM_ASSIGN(const auto ignore_merges, fields.boolean("ignore_merges"));
  definition.ignore_merges = ignore_merges.value_or(false);
  return {};
}

// GPT-2's own format, merges.txt: a version line, then a merge per line.
Result<MergeTable> read_merges_text(std::string_view text, const std::string& source,
                                    const Vocabulary& vocabulary) {
  MergeTable merges(std::count(text.begin(), text.end(), '\n') + 1);
  int64_t rank = 0;
  for (int64_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const std::optional<Pair> pair = pair_of_line(line);
    if (!pair)
      return fail("{}:{}: expected two tokens and one space, found {:?}", source, line_number,
                  line);
    if (const Status added = add_merge(vocabulary, *pair, rank++, merges); !added.ok())
      return fail("{}:{}: {}", source, line_number, added.error().message);
  }
  return merges;
}

}  // namespace neuronmm::text
