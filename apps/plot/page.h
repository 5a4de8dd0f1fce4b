#pragma once
// What pages of HTML begin with that need nothing beside them: no script, no font, no link; light
// or dark as the reader's browser asks for.

#include <string>

namespace neuronmm::apps {

// Up to and with the heading, which is the title. Classes: `plots`, a grid of figures; `wide`, what
// scrolls in itself where the page is narrower.
std::string page_head(const std::string& title);

}  // namespace neuronmm::apps
