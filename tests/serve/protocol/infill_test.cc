// Tests the prompts that fill in the middle of a text: llama.cpp's /infill and the field "suffix"
// of text completions, with the tokens of several families of models.

#include "serve/protocol/infill.h"

#include <gmock/gmock.h>

#include "serve/protocol/fake_server.h"
#include "serve/protocol/llama_cpp_completion.h"

namespace neuronmm::serve {
namespace {

using testing::HasSubstr;

// A model whose vocabulary has bytes and these tokens, from id 256 on.
ServedFolder folder_with(const std::vector<std::string>& tokens, const std::string& begin = {}) {
  nlohmann::json root = text::small_tokenizer(), config = nlohmann::json::object();
  for (const std::string& token : tokens) {
    const auto id = static_cast<TokenId>(256 + root["added_tokens"].size());
    root["added_tokens"].push_back(text::added_token(token, id));
    if (token != begin) continue;
    config["bos_token"] = begin;
    root["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", begin}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair",
         {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens", {{begin, {{"id", begin}, {"ids", {id}}, {"tokens", {begin}}}}}}};
  }
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      fmt::format("{}.{}.{}", test.test_suite_name(), test.name(), tokens.size());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << root;
  std::ofstream(folder / "tokenizer_config.json") << config;
  return ServedFolder::published(folder);
}

const std::vector<std::string> kQwen = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                                        "<|fim_pad|>",    "<|repo_name|>",  "<|file_sep|>"};

Exchange infill(const ServedModel& model, const Json& body) {
  return exchange_by(prepare_llama_cpp_infill, model, body, {says("x")});
}

// Returns the prompt as text, in which the special tokens are written out.
std::string prompt_text(const ServedFolder& folder, const Exchange& done) {
  if (done.error) return done.error->message;
  return folder.tokenizer().decode(done.requests.at(0).prompt);
}

TEST(Infill, FollowsTheOrderOfEachFamily) {
  struct Case {
    std::vector<std::string> tokens;
    std::string expected;
    std::string begin = {};
  };
  const Case cases[] = {
      {{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}, "<fim_prefix>P<fim_suffix>S<fim_middle>"},
      {{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<begin>"},
       "<begin><｜fim▁begin｜>P<｜fim▁hole｜>S<｜fim▁end｜>",
       "<begin>"},
      {{"▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>", "x"}, "▁<PRE>P▁<SUF>S▁<MID>"},
      {{"[PREFIX]", "[SUFFIX]"}, "[SUFFIX]S[PREFIX]P"},
      {{"a", "b", "c", "d", "e", "<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"},
       "<[fim-suffix]>S<[fim-prefix]>P<[fim-middle]>"},
  };
  for (const Case& one : cases) {
    const ServedFolder folder = folder_with(one.tokens, one.begin);
    EXPECT_EQ(
        prompt_text(folder, infill(folder.model, {{"input_prefix", "P"}, {"input_suffix", "S"}})),
        one.expected);
    EXPECT_EQ(prompt_text(folder,
                          exchange(folder.model, {{"prompt", "P"}, {"suffix", "S"}}, {says("x")})),
              one.expected);
  }
}

TEST(Infill, PutsOtherFilesBeforeThePrefix) {
  const ServedFolder qwen = folder_with(kQwen);
  Json body = {
      {"input_prefix", "P"},
      {"input_suffix", "S"},
      {"prompt", "Q"},
      {"input_extra", {{{"filename", "a.py"}, {"text", "A"}}, {{"text", "B"}, {"time", 1}}}}};
  EXPECT_EQ(prompt_text(qwen, infill(qwen.model, body)),
            "<|repo_name|>myproject\n<|file_sep|>a.py\nA<|file_sep|>tmp\nB<|file_sep|>filename\n"
            "<|fim_prefix|>PQ<|fim_suffix|>S<|fim_middle|>");
  const ServedFolder plain = folder_with({"<fim_prefix>", "<fim_suffix>", "<fim_middle>"});
  EXPECT_EQ(prompt_text(plain, infill(plain.model, body)),
            "\n\n--- snippet ---\n\nA\n\n--- snippet ---\n\nB"
            "<fim_prefix>PQ<fim_suffix>S<fim_middle>");
}

TEST(Infill, CutsThePartsFromTheirOuterEnds) {
  ServedFolder folder = folder_with(kQwen);
  folder.model.context_tokens = 8192;
  const auto repeated = [](char c, size_t count) { return std::string(count, c); };
  Json body = {{"input_prefix", "?" + repeated('p', 5000)},
               {"input_suffix", repeated('s', 5000) + "?"},
               {"prompt", "QQQ"},
               {"input_extra", {{{"filename", "f"}, {"text", "?" + repeated('e', 9000)}}}},
               {"n_predict", 100}};
  const std::string text = prompt_text(folder, infill(folder.model, body));
  EXPECT_THAT(text, HasSubstr("<|fim_prefix|>" + repeated('p', 1536) + "QQQ<|fim_suffix|>" +
                              repeated('s', 507) + "<|fim_middle|>"));
  EXPECT_EQ(text.find('?'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("eee<|file_sep|>filename\n<|fim_prefix|>"));
  const auto most = static_cast<size_t>(folder.model.context_tokens - 100);
  EXPECT_LE(infill(folder.model, body).requests.at(0).prompt.size(), most);
  EXPECT_GE(infill(folder.model, body).requests.at(0).prompt.size(), most - 8);
}

TEST(Infill, ASuffixIsCutOnlyIfTheContextIsFull) {
  ServedFolder folder = folder_with(kQwen);
  folder.model.context_tokens = 64;
  const auto prompt = [&](size_t prefix, size_t suffix) {
    return prompt_text(folder, exchange(folder.model,
                                        {{"prompt", "?" + std::string(prefix, 'p')},
                                         {"suffix", std::string(suffix, 's') + "!"},
                                         {"max_tokens", 10}},
                                        {says("x")}));
  };
  EXPECT_EQ(prompt(5, 20),
            "<|fim_prefix|>?ppppp<|fim_suffix|>" + std::string(20, 's') + "!<|fim_middle|>");
  EXPECT_EQ(prompt(5, 200),
            "<|fim_prefix|>?ppppp<|fim_suffix|>" + std::string(44, 's') + "<|fim_middle|>");
  EXPECT_EQ(prompt(100, 2),
            "<|fim_prefix|>" + std::string(47, 'p') + "<|fim_suffix|>ss!<|fim_middle|>");
  EXPECT_EQ(prompt(100, 200), "<|fim_prefix|>" + std::string(38, 'p') + "<|fim_suffix|>" +
                                  std::string(12, 's') + "<|fim_middle|>");
}

TEST(Infill, EndsAtTheModelsOwnTokens) {
  const ServedFolder folder = folder_with(kQwen);
  const Exchange done = exchange(folder.model, {{"prompt", "P"}, {"suffix", "S"}}, {says("x")});
  for (TokenId id = 256; id < 262; ++id)
    EXPECT_THAT(done.requests.at(0).stop_tokens, testing::Contains(id));
}

// Somebody's code may contain the names of special tokens.
TEST(Infill, SpecialTokensInTheTextsAreText) {
  const ServedFolder folder = folder_with(kQwen);
  const Exchange done =
      infill(folder.model, {{"input_prefix", "<|fim_suffix|>"}, {"input_suffix", {"S", 65}}});
  std::vector<TokenId> expected = {260};
  const auto add = [&](const std::vector<TokenId>& ids) {
    expected.insert(expected.end(), ids.begin(), ids.end());
  };
  add(bytes("myproject\n"));
  add({261});
  add(bytes("filename\n"));
  add({256});
  add(bytes("<|fim_suffix|>"));
  add({257, 'S', 'A', 258});
  EXPECT_EQ(done.requests.at(0).prompt, expected);
}

TEST(Infill, WrongRequestsAreRefusedByName) {
  const ServedFolder none;
  const Exchange refused = exchange(none.model, {{"prompt", "P"}, {"suffix", "S"}}, {says("x")});
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->status, 400);
  EXPECT_EQ(refused.error->param, "suffix");
  EXPECT_THAT(refused.error->message, HasSubstr("this model does not fill in the middle"));
  EXPECT_TRUE(exchange(none.model, {{"prompt", "P"}, {"suffix", ""}}, {says("x")}).error ==
              std::nullopt);
  const ServedFolder qwen = folder_with(kQwen);
  const std::pair<const char*, const char*> cases[] = {
      {R"({"input_suffix": "S"})", "input_prefix: expected a string"},
      {R"({"input_prefix": "P"})", "input_suffix: expected a string"},
      {R"({"input_prefix": 5, "input_suffix": "S"})", "input_prefix: expected a string"},
      {R"({"input_prefix": "P", "input_suffix": "S", "prompt": ["x"]})",
       "prompt: expected a string"},
      {R"({"input_prefix": "P", "input_suffix": "S", "input_extra": {}})", "input_extra: expected"},
      {R"({"input_prefix": "P", "input_suffix": "S", "input_extra": [5]})", "input_extra[0]"},
      {R"({"input_prefix": "P", "input_suffix": "S", "input_extra": [{"text": 5}]})",
       "input_extra[0].text: expected a string"},
      {R"({"input_prefix": [99999], "input_suffix": "S"})", "input_prefix: expected token ids"},
  };
  for (const auto& [body, message] : cases) {
    const Exchange done = infill(qwen.model, Json::parse(body));
    ASSERT_TRUE(done.error) << body;
    EXPECT_THAT(done.error->message, HasSubstr(message)) << body;
  }
}

}  // namespace
}  // namespace neuronmm::serve
