#pragma once
// Notices: what a library found or assumed that the person who runs the program should know, though
// it is no error. A library calls notify(). The programs of apps/ install a handler that prints
// each notice. Without a handler, as in the tests and the Python package, notices are dropped.

#include <functional>
#include <string>

namespace neuronmm {

using NoticeHandler = std::function<void(const std::string&)>;

// Installs the handler of all later notices, or removes it if `handler` is empty.
void set_notice_handler(NoticeHandler handler);

// Passes a sentence to the handler. A sentence that was passed before is dropped, because one
// command may open the same model several times. Any thread may call it.
void notify(const std::string& sentence);

}  // namespace neuronmm
