// The tests in this file run `neuronmm chat` as a user does, through a pipe and on a terminal. On a
// terminal Ctrl-C ends an answer but not the chat.

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pty.h>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no such role') }}{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {{ start | default('') }}{% endif %}";

class ChatCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(kDemo, folder_ / "model", fs::copy_options::recursive);
    write("model/chat_template.jinja", kTemplate);
  }

  // The result of a chat through a pipe: the answers, one per line, and the messages.
  struct ChatResult {
    int exit_code;
    std::string answers, messages;
  };
  ChatResult run_chat(const std::string& input,
                      const std::string& flags = "--greedy --max-new-tokens 12") {
    const std::string typed = write("typed", input), errors = path("errors");
    const Outcome outcome =
        run_shell(fmt::format("'{}' chat '{}' {} <'{}' 2>'{}'", program_path().string(),
                              path("model"), flags, typed, errors));
    return {outcome.exit_code, outcome.output, read(errors)};
  }
  Json saved(const std::string& name) const { return Json::parse(read(path(name)))["messages"]; }
};

std::string line(const std::string& text, size_t index) {
  std::istringstream lines(text);
  std::string line;
  for (size_t i = 0; i <= index; ++i) std::getline(lines, line);
  return line;
}

Json message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// Every answer equals the answer that a process with an empty cache gives to the same conversation.
TEST_F(ChatCommand, CachedTurnsAnswerLikeFreshConversations) {
  const ChatResult both =
      run_chat("One day, a cat\nThen a dog came\n/save " + path("both.json") + "\n");
  EXPECT_EQ(both.exit_code, 0) << both.messages;
  Json messages = saved("both.json");
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0], message("user", "One day, a cat"));
  EXPECT_EQ(messages[2], message("user", "Then a dog came"));
  EXPECT_FALSE(messages[1]["content"].get<std::string>().empty());
  messages.erase(3);
  const ChatResult second =
      run_chat("/save " + path("second.json") + "\n",
               "--greedy --max-new-tokens 12 --messages " + write("first.json", messages.dump()));
  EXPECT_EQ(second.exit_code, 0) << second.messages;
  EXPECT_EQ(saved("second.json"), saved("both.json"));
  EXPECT_EQ(neuronmm("generate " + path("model") +
                         " 'One day, a cat' --chat --greedy --max-new-tokens 12",
                     "", "/dev/null")
                .output,
            line(both.answers, 0) + "\n");
}

TEST_F(ChatCommand, ATurnComputesOnlyItsOwnTokens) {
  const ChatResult result = run_chat("One day, a cat\nThen a dog came\n/regenerate\n",
                                     "--greedy --max-new-tokens 12 --timings");
  // A line about the limit comes before the timings of each turn.
  EXPECT_EQ(line(result.messages, 1).find("kept"), std::string::npos) << result.messages;
  for (const size_t turn : {1, 2}) {
    int64_t prompt = 0, kept = 0;
    ASSERT_EQ(std::sscanf(line(result.messages, 2 * turn + 1).c_str(),
                          "prompt tokens %ld (%ld kept)", &prompt, &kept),
              2)
        << result.messages;
    if (turn == 1) {
      EXPECT_GT(kept, prompt / 2);
    } else {
      EXPECT_EQ(kept, prompt - 1);  // the prompt is the same, so only its last token is computed
    }
  }
}

TEST_F(ChatCommand, RegenerateDrawsANewAnswerThatReplacesTheOld) {
  const ChatResult result =
      run_chat("One day\n/save " + path("a") + "\n/regenerate\n/save " + path("b") + "\n",
               "--temperature 1.5 --seed 3 --max-new-tokens 12");
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  const Json a = saved("a"), b = saved("b");
  ASSERT_EQ(a.size(), 2u);
  ASSERT_EQ(b.size(), 2u);
  EXPECT_NE(a[1], b[1]);
  const ChatResult nothing = run_chat("/regenerate\n");
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_NE(nothing.messages.find("no message to answer again"), std::string::npos);
}

TEST_F(ChatCommand, WithoutARecommendationTokensAreDrawnWithModeration) {
  const std::string input = "One day\n", flags = "--seed 3 --max-new-tokens 24";
  const ChatResult usual = run_chat(input, flags);
  EXPECT_NE(usual.messages.find("temperature 0.7, top_p 0.9, because the model's "
                                "generation_config.json recommends nothing"),
            std::string::npos)
      << usual.messages;
  const ChatResult given = run_chat(input, flags + " --temperature 0.7 --top-p 0.9");
  EXPECT_EQ(usual.answers, given.answers);
  EXPECT_EQ(given.messages.find("recommends nothing"), std::string::npos) << given.messages;
  EXPECT_EQ(run_chat(input, flags + " --greedy").messages.find("recommends nothing"),
            std::string::npos);
  // The file's recommendation is taken instead, and it is not mixed with these settings.
  write("model/generation_config.json",
        R"({"eos_token_id": 2047, "do_sample": true, "temperature": 1.3})");
  const ChatResult recommended = run_chat(input, flags);
  EXPECT_NE(recommended.messages.find("generation_config.json: temperature 1.3"), std::string::npos)
      << recommended.messages;
  EXPECT_EQ(recommended.answers, run_chat(input, flags + " --temperature 1.3 --top-p 1").answers);
}

TEST_F(ChatCommand, CommandsChangeTheConversation) {
  const std::string file = path("c.json");
  run_chat("/system Be brief\nHello\n/clear\nA\n/system\n/save " + file + "\n",
           "--max-new-tokens 2");
  Json messages = saved("c.json");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0], message("user", "A"));
  run_chat("/load " + file + "\n/system Be kind\n  /not a command \n/save " + file + "\n",
           "--max-new-tokens 2");
  messages = saved("c.json");
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0], message("system", "Be kind"));
  EXPECT_EQ(messages[3], message("user", "/not a command"));
  run_chat("\"\"\"two\n\nlines\"\"\"\n\n   \n/save " + file + "\n/exit\nnot said\n",
           "--system X --max-new-tokens 2");
  messages = saved("c.json");
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0], message("system", "X"));
  EXPECT_EQ(messages[1], message("user", "two\n\nlines"));
}

TEST_F(ChatCommand, TemplateVariablesReachTheTemplate) {
  const std::string flags = "--greedy --max-new-tokens 12 --chat-template-kwargs ";
  const ChatResult with = run_chat("Hello\n", flags + R"('{"start": "The dog"}')");
  EXPECT_EQ(with.exit_code, 0) << with.messages;
  EXPECT_NE(with.answers, run_chat("Hello\n").answers);
  const ChatResult wrong = run_chat("Hello\n", flags + "'[1]'");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.messages.find("--chat-template-kwargs: expected an object"), std::string::npos);
}

// The chat goes on after an error in a message or a command, and the exit code tells a script of
// it.
TEST_F(ChatCommand, ErrorsLeaveTheConversationUnchanged) {
  const std::string thesis = write("thesis.tex", "\\begin{document}"), file = path("c.json");
  std::string longer;
  for (int i = 0; i < 400; ++i) longer += "a dog and ";
  const ChatResult result = run_chat("Hello\n/bogus\n/save\n/save " + thesis + "\n/load " + thesis +
                                         "\nno \xff UTF-8\n" + longer + "\n/save " + file + "\n",
                                     "--greedy --max-new-tokens 3");
  EXPECT_EQ(result.exit_code, 1);
  for (const char* words :
       {"/bogus: no such command", "/save: expected the name of a file", "not replaced",
        "thesis.tex", "expected UTF-8",
        "leaves no room for an answer in the context of 512: /clear begins a new conversation"}) {
    EXPECT_NE(result.messages.find(words), std::string::npos) << words << "\n" << result.messages;
  }
  EXPECT_EQ(read(thesis), "\\begin{document}");
  EXPECT_EQ(saved("c.json").size(), 2u);
  const std::string wrong = write("wrong.json", R"([{"role": "wizard", "content": "x"}])");
  EXPECT_NE(run_chat("Hello\n", "--messages " + wrong).messages.find("no such role"),
            std::string::npos);
}

TEST_F(ChatCommand, SaysWhyAnAnswerIsCutAndWhatToDo) {
  const std::string at_limit = "the answer ends here at its limit of 3 tokens: --max-new-tokens N";
  const std::string full =
      "the answer ends here because the context of 512 tokens is full: /clear begins a new";
  const ChatResult limited = run_chat("Hello\n", "--greedy --ignore-eos --max-new-tokens 3");
  EXPECT_EQ(limited.exit_code, 0);
  EXPECT_NE(limited.messages.find(at_limit), std::string::npos) << limited.messages;
  EXPECT_EQ(limited.messages.find(full), std::string::npos) << limited.messages;
  const ChatResult cut = run_chat("Hello\n", "--greedy --ignore-eos");
  EXPECT_EQ(cut.exit_code, 0);
  EXPECT_NE(cut.messages.find(full), std::string::npos) << cut.messages;
  EXPECT_EQ(cut.messages.find("at its limit"), std::string::npos) << cut.messages;
  const ChatResult stopped = run_chat("Hello\n", "--greedy --ignore-eos --stop ' '");
  EXPECT_EQ(stopped.messages.find("ends here"), std::string::npos) << stopped.messages;
}

TEST_F(ChatCommand, EmptyInputIsNoError) {
  const ChatResult result = run_chat("");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.answers + result.messages, "");
}

TEST_F(ChatCommand, AModelWithoutAChatTemplateIsRefused) {
  expect(neuronmm("chat " + kDemo), 1, {"no chat template", "generate"});
  expect(neuronmm("chat " + path("absent")), 1, {"absent"});
  expect(neuronmm("chat"), 2, {"MODEL_DIR"});
}

// Runs the program on a pseudo-terminal, types keys and waits for what the program shows.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> words) {
    child_ = forkpty(&descriptor_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    setenv("TERM", "dumb", 1);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Terminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(descriptor_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) {
    ASSERT_EQ(::write(descriptor_, keys.data(), keys.size()), std::ssize(keys));
  }
  // Returns whether the words appear after the words of the last call.
  bool shows(const std::string& words) {
    const size_t found = wait_for([&] { return shown_.find(words, seen_); });
    if (found == std::string::npos) return false;
    seen_ = found + words.size();
    return true;
  }
  // Returns whether more letters appear than "Hello" has, which must be a part of an answer. If
  // Hello is typed before the program reads single keys, it is echoed twice: by the system, then by
  // the program.
  bool shows_an_answer() {
    const std::ptrdiff_t echoed = std::ssize(std::string_view("Hello"));
    return wait_for([&] {
             const std::ptrdiff_t letters =
                 std::count_if(shown_.begin() + static_cast<ptrdiff_t>(seen_), shown_.end(),
                               [](unsigned char c) { return std::isalpha(c); });
             return letters > echoed ? shown_.size() : std::string::npos;
           }) != std::string::npos;
  }
  void signal(int number) { kill(child_, number); }
  const std::string& shown() const { return shown_; }
  // Returns the exit code of a program that ends within a minute. A longer one is killed.
  int exit_code() {
    int status = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (waitpid(child_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() >= deadline) kill(child_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  // Reads what the program shows until `find` returns a position in it. Returns npos after a minute
  // or at the end of the output.
  size_t wait_for(const std::function<size_t()>& find) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (true) {
      const size_t found = find();
      if (found != std::string::npos) return found;
      fd_set ready;
      FD_ZERO(&ready);
      FD_SET(descriptor_, &ready);
      timeval second = {.tv_sec = 1, .tv_usec = 0};
      char buffer[4096];
      if (select(descriptor_ + 1, &ready, nullptr, nullptr, &second) > 0) {
        const ssize_t n = ::read(descriptor_, buffer, sizeof(buffer));
        if (n <= 0) return std::string::npos;
        shown_.append(buffer, static_cast<size_t>(n));
      }
      if (std::chrono::steady_clock::now() > deadline) return std::string::npos;
    }
  }

  pid_t child_ = -1;
  int descriptor_ = -1;
  std::string shown_;
  size_t seen_ = 0;
};

// Runs a model with random weights, whose answers take minutes unless they are interrupted.
class ChatOnATerminal : public ChatCommand {
 protected:
  void SetUp() override {
    ChatCommand::SetUp();
    const std::string config = write("config.json", R"({"model_type": "llama",
      "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 2048,
      "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2,
      "vocab_size": 2048, "max_position_embeddings": 65536, "rms_norm_eps": 1e-5,
      "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": true,
      "torch_dtype": "bfloat16"})");
    expect(neuronmm("synthesize --config " + config + " -o " + path("slow") + " --seed 1"), 0, {});
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
      fs::copy_file(folder_ / "model" / file, folder_ / "slow" / file);
  }
  std::vector<std::string> chat() const {
    return {program_path().string(), "chat", path("slow"), "--ignore-eos", "--seed", "1",
            "--temperature",         "1"};
  }
};

TEST_F(ChatOnATerminal, ControlCEndsTheAnswerAndControlDTheChat) {
  Terminal terminal(chat());
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  for (int turn = 0; turn < 2; ++turn) {
    terminal.type("Hello\r");
    ASSERT_TRUE(terminal.shows("Hello\r\n")) << terminal.shown();
    ASSERT_TRUE(terminal.shows_an_answer()) << terminal.shown();
    terminal.type("\x03");
    ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  }
  terminal.type("half a message\x03");  // at the prompt Ctrl-C prints how to leave
  ASSERT_TRUE(terminal.shows("/exit or Ctrl-D")) << terminal.shown();
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("/save " + path("c.json") + "\r");
  ASSERT_TRUE(terminal.shows("saved ")) << terminal.shown();
  EXPECT_EQ(saved("c.json").size(), 4u);
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST_F(ChatOnATerminal, EarlierLinesComeBackAndMayHoldUnicode) {
  Terminal terminal(chat());
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("/system h\xc3\xa9\xf0\x9f\x98\x80x\x7f!\r");  // x, then backspace
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("/bogus\r");
  ASSERT_TRUE(terminal.shows("no such command")) << terminal.shown();
  terminal.type("\x10\x10?\r");  // Ctrl-P twice recalls the first line
  terminal.type("/save " + path("c.json") + "\r");
  ASSERT_TRUE(terminal.shows("saved ")) << terminal.shown();
  terminal.type("/exit\r");
  EXPECT_EQ(terminal.exit_code(), 0);
  EXPECT_EQ(saved("c.json")[0], message("system", "h\xc3\xa9\xf0\x9f\x98\x80!?"));
}

TEST_F(ChatOnATerminal, SigtermEndsTheChat) {
  Terminal terminal(chat());
  ASSERT_TRUE(terminal.shows(">>> ")) << terminal.shown();
  terminal.type("Hello\r");
  ASSERT_TRUE(terminal.shows("Hello\r\n")) << terminal.shown();
  ASSERT_TRUE(terminal.shows_an_answer()) << terminal.shown();
  terminal.signal(SIGTERM);
  EXPECT_EQ(terminal.exit_code(), 130);
}

}  // namespace
}  // namespace neuronmm::apps
