#pragma once
// What Jinja's compiler finds before a template runs: where each variable lies, which macros use
// `caller`, filters and tests that do not exist, `break` outside of a loop.

#include "text/jinja/ast.h"

namespace neuronmm::text::jinja {

// Sets the places of all names. An error begins with "LINE:COLUMN: ".
Result<Scope> analyze(Statements& statements);

}  // namespace neuronmm::text::jinja
