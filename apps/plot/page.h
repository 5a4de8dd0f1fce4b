#pragma once
// This file writes the beginning and the end of the HTML pages of `compare`, `fit` and `nki`. Such
// a page needs no other file: it has no script, font or link. The page is light or dark, as the
// reader's browser asks for.

#include <string>

#include "base/result.h"

namespace neuronmm::apps {

// Returns the page up to and including the heading, which is the title. `title` is escaped. The
// caller adds the content. The style has two classes: `plots` is a grid of figures, and `wide` is
// content that scrolls within itself on a narrow page.
std::string page_head(const std::string& title);

// Returns the page with its end: what made it (provenance.h), and the end tags of body and html.
Result<std::string> finished_page(std::string page);

}  // namespace neuronmm::apps
