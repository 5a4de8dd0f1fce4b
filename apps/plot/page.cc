#include "plot/page.h"

#include <fmt/format.h>

#include "plot/svg.h"
#include "provenance.h"

namespace neuronmm::apps {
namespace {

constexpr const char* kStyle = R"(<style>
:root { color-scheme: light dark; --page: #fff; --ink: #1c1f23; --line: #d5d9de; --quiet: #5a636e; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --ink: #e6e8ea; --line: #3a4149; --quiet: #a3acb6; }
}
body { background: var(--page); color: var(--ink); font: 15px/1.5 sans-serif; margin: 2rem auto; max-width: 1160px;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
p { color: var(--quiet); max-width: 75ch; }
p.made { font-family: monospace; margin: .2rem 0; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1.5rem; }
svg { width: 100%; height: auto; }
.wide { overflow-x: auto; }
.wide svg { min-width: 760px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--page); }
</style>
)";

}  // namespace

std::string page_head(const std::string& title) {
  const std::string text = escape_xml(title);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n{1}</head>\n<body>\n<h1>{0}</h1>\n",
      text, kStyle);
}

Result<std::string> finished_page(std::string page) {
  page += "<h2>What made this page</h2>\n";
  NMM_ASSIGN(const auto lines, provenance_lines());
  for (const std::string& line : lines) {
    page += "<p class=\"made\">" + escape_xml(line) + "</p>\n";
  }
  return page + "</body>\n</html>\n";
}

}  // namespace neuronmm::apps
