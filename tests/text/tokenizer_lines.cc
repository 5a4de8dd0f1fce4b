// Runs tokenizers for tests/slow/tokenizers.py. Every line of the input is a JSON object, and every
// line of the output is its answer:
//   {"load": PATH of a tokenizer.json}      {} or {"error": "..."}
//   {"texts": [...], "special": true}       {"ids": [...], "text": [...], "streamed": [...]}
// The second answer has one entry per text. "ids" has its ids or null, "text" what they decode to
// (U+FFFD for bytes that are not UTF-8), and "streamed" the result of a StreamDecoder. The latter
// is null if a piece was not UTF-8.

#include <iostream>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "io/folder_writer.h"
#include "io/text_file.h"
#include "text/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/utf8.h"

namespace {

using neuronmm::text::Tokenizer;
using nlohmann::json;

std::string to_utf8(std::string_view bytes) {
  neuronmm::text::Utf8Stream stream;
  const std::string text = stream.push(bytes);
  return text + stream.finish();
}

json streamed(const Tokenizer& tokenizer, const std::vector<neuronmm::text::TokenId>& ids) {
  neuronmm::text::StreamDecoder decoder(tokenizer, false);
  std::string text;
  bool is_utf8 = true;
  const auto add = [&](const std::string& piece) {
    is_utf8 &= neuronmm::text::valid_utf8_length(piece) == std::ssize(piece);
    text += piece;
  };
  for (const auto id : ids) add(decoder.push(id));
  add(decoder.finish());
  return is_utf8 ? json(text) : json();
}

json answer(const json& request, std::optional<Tokenizer>& tokenizer) {
  if (request.contains("load")) {
    const std::string path = request["load"];
    const auto text = neuronmm::io::read_text_file(path, neuronmm::io::kMaxTokenizerBytes);
    if (!text.ok()) return {{"error", text.error().message}};
    auto loaded = Tokenizer::parse(*text, path);
    if (!loaded.ok()) return {{"error", loaded.error().message}};
    tokenizer.emplace(std::move(loaded).value());
    return json::object();
  }
  json out = {{"ids", json::array()}, {"text", json::array()}, {"streamed", json::array()}};
  for (const json& text : request.at("texts")) {
    const auto ids = tokenizer.value().encode(text.get_ref<const std::string&>(),
                                              {.add_special_tokens = request.at("special")});
    out["ids"].push_back(ids.ok() ? json(*ids) : json());
    if (!ids.ok()) continue;
    out["text"].push_back(to_utf8(tokenizer->decode(*ids)));
    out["streamed"].push_back(streamed(*tokenizer, *ids));
  }
  return out;
}

}  // namespace

int main() {
  std::optional<Tokenizer> tokenizer;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(json::parse(line), tokenizer).dump() << std::endl;
}
