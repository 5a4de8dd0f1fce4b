// The tests in this file give --draft to `generate`, `chat`, `bench` and `serve` as a user does.
// The draft of the bundled model is its first layer alone.

#include <csignal>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "run_program.h"
#include "serve/http/http_client.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kStory = " 'Once upon a time' --max-new-tokens 60 ";

class DraftOption : public ProgramTest {
 protected:
  // Returns a copy of the small model in which `change` has changed a JSON file.
  template <typename Change>
  std::string changed_draft(const std::string& file, const Change& change) const {
    const fs::path folder = folder_ / "draft";
    fs::remove_all(folder);
    fs::copy(kOneLayer, folder, fs::copy_options::recursive);
    Json json = Json::parse(read(folder / file));
    change(json);
    write("draft/" + file, json.dump());
    return folder.string();
  }
  std::string draft_with_context(int64_t tokens) const {
    return changed_draft("config.json",
                         [&](Json& config) { config["max_position_embeddings"] = tokens; });
  }
  // Returns a copy of the small model whose final norm is NaN, so that its logits are NaN.
  std::string broken_draft() const {
    const std::string folder = changed_draft("config.json", [](Json&) {});
    std::string bytes = read(fs::path(folder) / "model.safetensors");
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const Json json = Json::parse(bytes.substr(sizeof(header), header));
    const Json range = json.at("model.norm.weight").at("data_offsets");
    for (auto at = range[0].get<size_t>(); at < range[1].get<size_t>(); ++at)
      bytes[sizeof(header) + header + at] = '\xff';
    write("draft/model.safetensors", bytes);
    return folder;
  }
};

TEST_F(DraftOption, MakesTheSameTextAndCountsWhatWasAccepted) {
  const std::regex counted(R"(decode [0-9.]+ tokens/s, accepted (\d+) of (\d+) proposed tokens\n)");
  for (const std::string sampling : {"--greedy", "--temperature 0.8 --seed 7", "--stop park"}) {
    const std::string arguments = "generate " + kDemo + kStory + sampling;
    const Outcome plain = neuronmm(arguments, "", "/dev/null");
    expect(plain, 0, {});
    for (const std::string& draft : {kOneLayer, kDemo, std::string("ngram")}) {
      const Outcome drafted = neuronmm(arguments + " --draft " + draft, "", path("errors"));
      EXPECT_EQ(drafted.output, plain.output) << draft << " " << sampling;
      const std::string messages = read(path("errors"));
      std::smatch match;
      if (draft == "ngram") continue;  // it may have found nothing
      ASSERT_TRUE(std::regex_search(messages, match, counted)) << messages;
      EXPECT_LE(std::stoi(match[1]), std::stoi(match[2]));
    }
  }
}

TEST_F(DraftOption, AFolderThatIsNoModelIsRefused) {
  for (const std::string command : {"generate", "serve", "bench"}) {
    const std::string text = command == "generate" ? kStory : " ";
    expect(neuronmm(command + " " + kDemo + text + "--draft " + path("nothing")), 1,
           {"--draft: ", "nothing: expected a model or ngram for a lookup in the text"});
  }
  fs::create_directories(folder_ / "empty");
  expect(neuronmm("generate " + kDemo + kStory + "--draft " + path("empty")), 1,
         {"--draft: ", "empty", "config.json"});
}

TEST_F(DraftOption, AnotherVocabularyIsRefused) {
  const std::string draft = changed_draft("tokenizer.json", [](Json& tokenizer) {
    Json token = tokenizer["added_tokens"].back();
    token["id"] = 2048;
    token["content"] = "<unheard>";
    tokenizer["added_tokens"].push_back(token);
  });
  expect(neuronmm("generate " + kDemo + kStory + "--draft " + draft), 1,
         {"--draft: ", "expected the tokens of", "token 2048", "<unheard>", "the same model"});
  expect(neuronmm("bench " + kDemo + " --draft " + draft), 1, {"--draft: ", "token 2048"});
}

TEST_F(DraftOption, ADraftLargerThanTheModelIsRefused) {
  expect(neuronmm("generate " + kOneLayer + kStory + "--draft " + kDemo), 1,
         {"--draft: ", "expected a draft with at most", "bytes", "choose a smaller model"});
}

// Eight bits of a model are its natural draft.
TEST_F(DraftOption, TheRoundedFormOfTheModelIsTaken) {
  expect(neuronmm("quantize " + kOneLayer + " -o " + path("rounded") + " --bits 8"), 0, {});
  expect(neuronmm("generate " + kOneLayer + kStory + "--draft " + path("rounded")), 0,
         {"proposed tokens"});
}

TEST_F(DraftOption, AShorterContextIsToldAndAPromptBeyondItIsRefused) {
  const std::string draft = draft_with_context(12);
  const std::string arguments = "generate " + kDemo + kStory;
  const Outcome plain = neuronmm(arguments, "", "/dev/null");
  const Outcome drafted = neuronmm(arguments + "--draft " + draft, "", path("errors"));
  EXPECT_EQ(drafted.output, plain.output);
  EXPECT_NE(read(path("errors")).find("what follows after 12 tokens"), std::string::npos);
  expect(neuronmm("generate " + kDemo +
                  " 'Once upon a time there was a little girl who liked to play in the park' "
                  "--draft " +
                  draft),
         1, {"--draft: ", "at least", "which the prompt has", "found 12", "leave --draft out"});
  expect(neuronmm("serve " + kDemo + " --port 0 --context-length 100 --draft " + draft), 1,
         {"--draft: ", "at least 100 tokens, which --context-length asks for", "found 12"});
}

TEST_F(DraftOption, TextsGoOnWithoutADraftThatFails) {
  const std::string arguments = "generate " + kDemo + kStory;
  const Outcome plain = neuronmm(arguments, "", "/dev/null");
  const Outcome drafted = neuronmm(arguments + "--draft " + broken_draft(), "", path("errors"));
  expect(drafted, 0, {});
  EXPECT_EQ(drafted.output, plain.output);
  const std::string messages = read(path("errors"));
  EXPECT_NE(messages.find("the draft has failed"), std::string::npos) << messages;
  EXPECT_NE(messages.find("expected finite logits"), std::string::npos) << messages;
}

TEST_F(DraftOption, AChatHasTheSameAnswers) {
  fs::copy(kDemo, folder_ / "model", fs::copy_options::recursive);
  write("model/chat_template.jinja",
        "{% for m in messages %}{{ m.content }}\n{% endfor %}Once upon a time");
  const std::string chat = fmt::format(
      "printf 'a cat\\na dog\\n/regenerate\\n' | '{}' chat '{}' "
      "--temperature 0.7 --seed 3 --max-new-tokens 40 ",
      program_path().string(), path("model"));
  const Outcome plain = run_shell(chat + "2>/dev/null");
  EXPECT_EQ(plain.exit_code, 0);
  for (const std::string& draft : {kOneLayer, std::string("ngram")})
    EXPECT_EQ(run_shell(chat + "--draft " + draft + " 2>/dev/null").output, plain.output);
}

TEST_F(DraftOption, BenchComparesTheModelWithAndWithoutIt) {
  const std::string bench = "bench " + kDemo + " --prompt-tokens 8 --new-tokens 16 --runs 2 ";
  expect(neuronmm(bench + "--draft " + kOneLayer + " --json " + path("report.json")), 0,
         {"with draft", "speed-up", "draft    ", "proposed tokens"});
  const Json report = Json::parse(read(path("report.json")));
  EXPECT_EQ(report["settings"]["draft"], kOneLayer);
  EXPECT_GT(report["against"]["draft"]["proposed_tokens"], 0);
  EXPECT_TRUE(report["speedup"].contains("decode_tokens_per_s"));
  expect(neuronmm(bench + "--batch 3 --draft ngram"), 0, {"with draft"});
  expect(neuronmm(bench + "--draft ngram --against " + kOneLayer), 2, {"--draft", "--against"});
}

// A server of the bundled model that ends with the object.
class StartedServer {
 public:
  StartedServer(const std::string& log, const std::string& flags) : log_(log) {
    fs::remove(log);
    const Outcome started = run_shell(fmt::format(
        "'{}' serve '{}' --port 0 {} >'{}' 2>&1 & for i in $(seq 400); do grep -qs 'is ready' '{}' "
        "&& break; sleep 0.05; done; echo $!",
        program_path().string(), kDemo, flags, log, log));
    process_ = std::atoi(started.output.c_str());
    const std::string before = "listening on http://127.0.0.1:", text = printed();
    const size_t found = text.find(before);
    EXPECT_NE(found, std::string::npos) << text;
    if (found != std::string::npos) port_ = std::atoi(text.c_str() + found + before.size());
  }
  ~StartedServer() { kill(process_, SIGKILL); }
  StartedServer(const StartedServer&) = delete;
  StartedServer& operator=(const StartedServer&) = delete;

  std::string printed() const { return read(log_); }
  std::string metrics() const { return serve::HttpClient(port_).get("/metrics").body; }
  // Returns greedy and drawn answers, some of which have a stop string or follow a grammar.
  std::vector<std::string> answers() const {
    const Json schema = Json::parse(R"({"type": "object", "required": ["name", "legs"],
        "properties": {"name": {"type": "string", "maxLength": 20}, "legs": {"enum": [2, 4]}}})");
    const std::vector<Json> kinds = {Json::object(),
                                     {{"stop", {"she", ". T"}}},
                                     {{"guided_json", schema}},
                                     {{"guided_regex", "([a-z]{3,8} ){12}end"}},
                                     {{"n", 3}}};
    std::vector<std::string> all;
    for (const Json& kind : kinds) {
      for (const double temperature : {0.0, 0.9}) {
        Json body = {{"prompt", "Once upon a time"},
                     {"max_tokens", 60},
                     {"seed", 4},
                     {"temperature", temperature},
                     {"logprobs", 2}};
        body.update(kind);
        const auto reply = serve::HttpClient(port_).post("/v1/completions", body.dump());
        EXPECT_EQ(reply.status, 200) << reply.body;
        all.push_back(Json::parse(reply.body)["choices"].dump());
      }
    }
    return all;
  }

 private:
  const std::string log_;
  int process_ = 0, port_ = 0;
};

TEST_F(DraftOption, AServerAnswersTheSameAndCountsProposals) {
  std::vector<std::string> plain;
  {
    const StartedServer server(path("log"), "");
    plain = server.answers();
    EXPECT_EQ(server.metrics().find("spec_decode"), std::string::npos);
  }
  for (const std::string& draft : {kOneLayer, std::string("ngram")}) {
    const StartedServer server(path("log"), "--draft " + draft);
    EXPECT_EQ(server.answers(), plain);
    const std::string metrics = server.metrics();
    for (const char* const name : {"num_drafts", "num_draft_tokens", "num_accepted_tokens"})
      EXPECT_NE(metrics.find(fmt::format("vllm:spec_decode_{}_total", name)), std::string::npos);
  }
}

TEST_F(DraftOption, AServerGoesOnWithoutADraftThatFailsAndSaysSoOnce) {
  std::vector<std::string> plain;
  {
    const StartedServer server(path("log"), "");
    plain = server.answers();
  }
  const StartedServer server(path("log"), "--draft " + broken_draft());
  EXPECT_EQ(server.answers(), plain);
  const std::string printed = server.printed();
  const std::string message = "the draft has failed, and texts go on without it";
  const size_t first = printed.find(message);
  ASSERT_NE(first, std::string::npos) << printed;
  EXPECT_EQ(printed.find(message, first + 1), std::string::npos) << printed;
}

}  // namespace
}  // namespace neuronmm::apps
