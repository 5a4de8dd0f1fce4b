#include "model/line_reader.h"

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>

#include <histedit.h>
#include <unistd.h>

#include "base/interrupt.h"

namespace neuronmm::apps {
namespace {

constexpr int kHistoryLines = 1000;

// Reads one key for libedit. Returns 1, or 0 at the end of the input, or -1 after an interrupt. The
// function of libedit itself reads again after a signal, and a Ctrl-C would wait for the next key.
int read_key(EditLine*, wchar_t* key) {
  std::mbstate_t state = {};
  while (true) {
    char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n == 0) return 0;
    if (n < 0) {
      if (errno == EINTR && !interrupted())
        continue;  // a signal other than an interrupt, such as a changed window size
      return -1;
    }
    const size_t used = std::mbrtowc(key, &byte, 1, &state);
    if (used == static_cast<size_t>(-1)) {  // the byte is not UTF-8
      *key = L'\uFFFD';
      return 1;
    }
    if (used != static_cast<size_t>(-2)) return 1;  // -2: the character needs more bytes
  }
}

}  // namespace

class LineReader::Editor {
 public:
  Editor() : editor_(el_init("neuronmm", stdin, stderr, stderr)), history_(history_init()) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(
        editor_, EL_PROMPT, +[](EditLine* editor) {
          Editor* self = nullptr;
          el_get(editor, EL_CLIENTDATA, &self);
          return self->prompt_.data();
        });
    el_set(editor_, EL_SIGNAL, 0);  // the program handles signals itself (base/interrupt.h)
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_GETCFN, &read_key);
  }
  ~Editor() {
    history_end(history_);
    el_end(editor_);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  std::optional<std::string> read(const std::string& prompt) {
    prompt_ = prompt;
    // libedit reads single keys only after it has shown the prompt. A Ctrl-D typed between the two
    // would be lost.
    el_set(editor_, EL_PREP_TERM, 1);
    int length = 0;
    const char* line = el_gets(editor_, &length);
    if (line == nullptr || length <= 0) {
      std::fputc('\n', stderr);  // the next message begins on a new line
      return std::nullopt;
    }
    std::string text(line, static_cast<size_t>(length));
    HistEvent event;
    if (text != "\n") history(history_, &event, H_ENTER, text.c_str());
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }

 private:
  EditLine* editor_;
  History* history_;
  std::string prompt_;
};

LineReader::LineReader() {
  if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) editor_ = std::make_unique<Editor>();
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::read(const std::string& prompt) {
  if (interrupted()) return std::nullopt;
  if (editor_) return editor_->read(prompt);
  char* line = nullptr;
  size_t capacity = 0;
  const ssize_t length = ::getline(&line, &capacity, stdin);
  std::optional<std::string> text;
  if (length >= 0) text.emplace(line, static_cast<size_t>(length));
  std::free(line);
  if (text && text->ends_with('\n')) text->pop_back();
  return text;
}

}  // namespace neuronmm::apps
