#pragma once
// Makes the checks that Jinja's compiler makes before a template runs. They find where each
// variable lies and which macros use `caller`. Errors are unknown filters and tests, and a `break`
// outside of a loop. Template::parse (template.h) calls analyze() on the tree of the parser.

#include "text/jinja/ast.h"

namespace neuronmm::text::jinja {

// Sets the addresses of all names in the tree, and returns the scope of the template. An error
// begins with "LINE:COLUMN: ".
Result<Scope> analyze(Statements& statements);

}  // namespace neuronmm::text::jinja
