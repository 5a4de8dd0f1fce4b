#pragma once
// Small chat templates that refuse conversations as the templates of published families do.

#include <string>
#include <vector>

namespace neuronmm::serve {

struct DemandingTemplate {
  const char* name;
  std::string source;
};

// Returns one template for each demand that published templates have.
inline std::vector<DemandingTemplate> demanding_templates() {
  const std::string plain = "|{{ m.role }}|{{ m.content }}";
  const std::string calls =
      "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ c.function.name }}\", "
      "\"arguments\": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}";
  const std::string tools = "{% if tools %}{{ tools | tojson }}{% endif %}";
  const auto over_messages = [&](const std::string& demand, const std::string& shown) {
    return tools + "{% for m in messages %}" + demand + shown + "{% endfor %}" +
           "{% if add_generation_prompt %}|assistant|{% endif %}";
  };
  const std::string turns =
      "{% set ns = namespace(user=true) %}" +
      over_messages(
          "{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
          "{% if (m.role == 'user') != ns.user %}{{ raise_exception('turns must alternate') }}"
          "{% endif %}{% set ns.user = not ns.user %}{% endif %}",
          plain + calls);
  return {
      {"shows all", over_messages("", plain + calls)},
      {"one call per message",
       over_messages("{% if m.tool_calls and m.tool_calls | length != 1 %}"
                     "{{ raise_exception('only single tool-calls at once') }}{% endif %}",
                     plain + calls)},
      {"shows only the first call",
       over_messages("", plain +
                             "{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}<tool_call>"
                             "{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}")},
      {"ids of nine characters",
       over_messages(
           "{% for c in m.tool_calls or [] %}{% if c.id is undefined or c.id | length != 9 %}"
           "{{ raise_exception('ids') }}{% endif %}{% endfor %}"
           "{% if m.role == 'tool' and (m.tool_call_id is undefined or "
           "m.tool_call_id | length != 9) %}{{ raise_exception('ids') }}{% endif %}",
           plain + calls)},
      {"alternating turns", turns},
      {"no system",
       over_messages("{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}",
                     plain + calls)},
      {"drops the system",
       over_messages("", "{% if m.role != 'system' %}" + plain + calls + "{% endif %}")},
      {"no role tool", over_messages("{% if m.role not in ['system', 'user', 'assistant'] %}"
                                     "{{ raise_exception('role') }}{% endif %}",
                                     plain + calls)},
      {"drops results",
       over_messages("", "{% if m.role != 'tool' %}" + plain + calls + "{% endif %}")},
      {"arguments are objects",
       over_messages("", plain +
                             "{% for c in m.tool_calls or [] %}<tool_call><function="
                             "{{ c.function.name }}>{% for k, v in c.function.arguments.items() %}"
                             "<parameter={{ k }}>{{ v }}</parameter>{% endfor %}{% endfor %}")},
      {"no tools, alternating turns without system",
       "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
       "{{ raise_exception('turns') }}{% endif %}" +
           plain + "{% endfor %}"},
      {"opens thoughts",
       over_messages("", plain + calls) + "{% if add_generation_prompt %}<think>\n{% endif %}"},
      {"has other thoughts",
       over_messages("",
                     "{% if m.reasoning_content %}[THINK]{{ m.reasoning_content }}[/THINK]"
                     "{% endif %}" +
                         plain + calls)},
  };
}

}  // namespace neuronmm::serve
