// The command neuronmm chat: a conversation with a model, on a terminal or through pipes.

#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "commands.h"
#include "flags.h"
#include "help.h"
#include "io/text_file.h"
#include "message.h"
#include "model/answer_flags.h"
#include "model/chat_session.h"
#include "model/draft_option.h"
#include "model/line_reader.h"
#include "text/chat_template.h"
#include "text/unicode/utf8.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

// The help text of the chat's commands, with two spaces in front as in --help.
constexpr const char* kHelp = R"(  /regenerate    Answer the last message again.
  /system TEXT   Set the system message; without a text, remove it.
  /clear         Begin a new conversation with the same system message.
  /save FILE     Save the conversation as JSON.
  /load FILE     Go on with a saved conversation.
  /exit          End the chat, as Ctrl-D does.
  /help          Show this list.
  Ctrl-C         End the answer.
  """            Begin and end a message of several lines.
A message that begins with / needs a space before it.
)";
constexpr std::string_view kMultilineQuotes = "\"\"\"";

struct ChatFlags {
  AnswerFlags answer;
  std::string system, messages, template_kwargs, draft;
  bool timings = false;
};

Result<text::Conversation> load_conversation(const std::string& path) {
  NMM_ASSIGN(const std::string text, io::read_user_text(path));
  return text::parse_conversation(text, path);
}

Result<text::Conversation> first_conversation(const ChatFlags& flags) {
  text::Conversation conversation;
  if (!flags.messages.empty()) {
    NMM_ASSIGN(conversation, load_conversation(flags.messages));
  }
  if (!flags.system.empty()) conversation.add_message("system", flags.system);
  if (!flags.template_kwargs.empty()) {
    NMM_ASSIGN(conversation.template_kwargs,
               text::parse_template_kwargs(flags.template_kwargs, "--chat-template-kwargs"));
  }
  return conversation;
}

// Saves the conversation. A file that holds anything but a conversation is not overwritten.
Status save(const text::Conversation& conversation, const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error) && fs::file_size(path, error) > 0 &&
      !load_conversation(path).ok())
    return fail("{}: is there and is no conversation: not replaced", path);
  NMM_TRY(io::write_text_file(path, text::conversation_json(conversation)));
  print_message("saved {}\n", path);
  return {};
}

// Reads messages, and commands that begin with a slash, and carries them out.
class ChatLoop {
 public:
  explicit ChatLoop(ChatSession& session) : session_(session) {}

  // Returns the exit code. An error of a message or a command is printed, and the chat goes on. An
  // interrupt while the chat reads from a pipe, and SIGTERM, end the chat with an error.
  Result<int> run() {
    if (lines_.on_terminal()) print_message("/help lists the commands; Ctrl-D ends the chat\n");
    if (session_.unanswered()) report(session_.regenerate());
    while (!ended_) {
      const auto line = next_message();
      if (interrupted()) {
        if (!lines_.on_terminal() || !forget_interrupt())
          return interrupted_error("the conversation is not saved");
        print_message("(/exit or Ctrl-D ends the chat)\n");
      } else if (!line) {
        break;
      } else {
        report(handle_line(*line));
        if (interrupted() && !forget_interrupt())  // SIGTERM
          return interrupted_error("the conversation is not saved");
      }
    }
    return failed_ && !lines_.on_terminal() ? 1 : 0;
  }

 private:
  // Returns a line, or the text between two """ if the line begins with them.
  std::optional<std::string> next_message() {
    auto line = lines_.read(">>> ");
    if (!line || !line->starts_with(kMultilineQuotes)) return line;
    std::string text = line->substr(kMultilineQuotes.size());
    while (!text.ends_with(kMultilineQuotes)) {
      line = lines_.read("... ");
      if (!line) return std::nullopt;
      text += "\n" + *line;
    }
    text.resize(text.size() - kMultilineQuotes.size());
    return " " + text;  // the space keeps handle_line() from reading it as a command
  }

  Status handle_line(const std::string& line) {
    if (text::valid_utf8_length(line) != std::ssize(line))
      return fail("expected UTF-8: the message is not sent");
    if (!line.starts_with('/')) {
      const size_t begin = line.find_first_not_of(" \t\r\n");
      if (begin == std::string::npos) return {};  // an empty line is no message
      return session_.send(line.substr(begin, line.find_last_not_of(" \t\r\n") + 1 - begin));
    }
    const size_t space = std::min(line.find(' '), line.size());
    const size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
    const size_t end = line.find_last_not_of(" \r") + 1;
    return run_command(line.substr(0, space), begin < end ? line.substr(begin, end - begin) : "");
  }

  Status run_command(const std::string& command, const std::string& argument) {
    if (command == "/exit" || command == "/quit") {
      ended_ = true;
    } else if (command == "/help") {
      print_message("{}", kHelp);
    } else if (command == "/regenerate") {
      return session_.regenerate();
    } else if (command == "/system") {
      session_.set_system(argument);
    } else if (command == "/clear") {
      session_.clear();
    } else if (command == "/save" || command == "/load") {
      if (argument.empty()) return fail("{}: expected the name of a file", command);
      if (command == "/save") return save(session_.conversation(), argument);
      NMM_ASSIGN(auto conversation, load_conversation(argument));
      session_.replace(std::move(conversation));
      if (session_.unanswered()) return session_.regenerate();
    } else {
      return fail("{}: no such command; /help lists them, and a space before it makes it a message",
                  command);
    }
    return {};
  }

  void report(const Status& status) {
    if (status.ok()) return;
    failed_ = true;
    print_message("neuronmm chat: {}\n", printable(status.error().message));
  }

  ChatSession& session_;
  LineReader lines_;
  bool ended_ = false, failed_ = false;
};

Result<int> run_chat(ChatFlags& flags) {
  AnswerFlags& answer = flags.answer;
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(answer.model_dir));
  if (tokenizer.config().chat_templates.empty())
    return fail("{}: the model has no chat template: `neuronmm generate` continues a text",
                answer.model_dir);
  NMM_ASSIGN(auto conversation, first_conversation(flags));
  NMM_ASSIGN(const auto backend, make_backend(answer.device));
  NMM_ASSIGN(const auto transformer, model::Transformer::load(answer.model_dir, *backend));
  NMM_ASSIGN(const auto draft, load_draft(flags.draft, transformer, &tokenizer));
  const auto speculation = make_speculation(draft, transformer);
  // An answer may fill the whole context.
  NMM_ASSIGN(auto options,
             answer_options(answer, tokenizer, transformer.config(), true,
                            {.max_new_tokens = transformer.config().max_position_embeddings}));
  // The conversation is only in memory, so the first Ctrl-C must never end the program.
  const UnsavedWork unsaved;
  // The prefill of a long message takes seconds, and an interrupt has to end it at once.
  const StoppableLoops stoppable(interrupt_request());
  ChatSession session({.tokenizer = tokenizer,
                       .transformer = transformer,
                       .options = std::move(options),
                       .stop = answer.stop,
                       .device = answer.device,
                       .timings = flags.timings,
                       .speculation = speculation.get(),
                       .draft = flags.draft},
                      std::move(conversation));
  return ChatLoop(session).run();
}

}  // namespace

void add_chat(Program& program) {
  CLI::App* command = program.add(
      CommandGroup::kModels, "chat", "Talk with a chat model",
      {"neuronmm chat MODEL_DIR", "neuronmm chat MODEL_DIR --system \"Answer in one sentence.\""});
  auto flags = std::make_shared<ChatFlags>();
  flags->answer.conversation = true;
  command->add_option("MODEL_DIR", flags->answer.model_dir, kModelHelp)->required()->group(kInput);
  add_adapter_option(command);
  auto* system =
      command->add_option("--system", flags->system, "System message of the chat")->group(kInput);
  command->add_option("--messages", flags->messages, "Go on with a conversation, as /save wrote it")
      ->type_name("FILE")
      ->excludes(system)
      ->group(kInput);
  command
      ->add_option("--chat-template-kwargs", flags->template_kwargs,
                   "Set variables of the chat template")
      ->type_name("JSON")
      ->group(kRare);
  command->add_flag("--timings", flags->timings, "Print the speed of each answer after it")
      ->group(kOutput);
  add_answer_flags(command, flags->answer);
  add_draft_option(command, flags->draft);
  std::string footer =
      std::string("Each line of standard input is a message, or a command:\n") + kHelp;
  footer.pop_back();  // The help ends its lines itself.
  command->footer(footer);
  program.set_run(
      command, [flags] { return run_chat(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
