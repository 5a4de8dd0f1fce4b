#pragma once
// Jinja's filters, grouped by the file that implements them. filters.cc has the table of their
// names.

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

using FilterResult = Result<Value>;

// Implemented in filters_text.cc.
FilterResult filter_capitalize(Runtime&, const Value&, const Arguments&);
FilterResult filter_center(Runtime&, const Value&, const Arguments&);
FilterResult filter_escape(Runtime&, const Value&, const Arguments&);
FilterResult filter_forceescape(Runtime&, const Value&, const Arguments&);
FilterResult filter_format(Runtime&, const Value&, const Arguments&);
FilterResult filter_indent(Runtime&, const Value&, const Arguments&);
FilterResult filter_join(Runtime&, const Value&, const Arguments&);
FilterResult filter_lower(Runtime&, const Value&, const Arguments&);
FilterResult filter_replace(Runtime&, const Value&, const Arguments&);
FilterResult filter_safe(Runtime&, const Value&, const Arguments&);
FilterResult filter_string(Runtime&, const Value&, const Arguments&);
FilterResult filter_title(Runtime&, const Value&, const Arguments&);
FilterResult filter_tojson(Runtime&, const Value&, const Arguments&);
FilterResult filter_trim(Runtime&, const Value&, const Arguments&);
FilterResult filter_truncate(Runtime&, const Value&, const Arguments&);
FilterResult filter_upper(Runtime&, const Value&, const Arguments&);
FilterResult filter_wordcount(Runtime&, const Value&, const Arguments&);

// Implemented in filters_list.cc.
FilterResult filter_batch(Runtime&, const Value&, const Arguments&);
FilterResult filter_first(Runtime&, const Value&, const Arguments&);
FilterResult filter_items(Runtime&, const Value&, const Arguments&);
FilterResult filter_last(Runtime&, const Value&, const Arguments&);
FilterResult filter_length(Runtime&, const Value&, const Arguments&);
FilterResult filter_list(Runtime&, const Value&, const Arguments&);
FilterResult filter_map(Runtime&, const Value&, const Arguments&);
FilterResult filter_reject(Runtime&, const Value&, const Arguments&);
FilterResult filter_rejectattr(Runtime&, const Value&, const Arguments&);
FilterResult filter_reverse(Runtime&, const Value&, const Arguments&);
FilterResult filter_select(Runtime&, const Value&, const Arguments&);
FilterResult filter_selectattr(Runtime&, const Value&, const Arguments&);
FilterResult filter_slice(Runtime&, const Value&, const Arguments&);
FilterResult filter_sum(Runtime&, const Value&, const Arguments&);

// Implemented in filters_order.cc.
FilterResult filter_dictsort(Runtime&, const Value&, const Arguments&);
FilterResult filter_groupby(Runtime&, const Value&, const Arguments&);
FilterResult filter_max(Runtime&, const Value&, const Arguments&);
FilterResult filter_min(Runtime&, const Value&, const Arguments&);
FilterResult filter_sort(Runtime&, const Value&, const Arguments&);
FilterResult filter_unique(Runtime&, const Value&, const Arguments&);

// Returns the attribute of an item that a path such as "a.0.b" names. Without a path (null, None),
// it returns the item itself. `otherwise` replaces undefined values on the path unless it is null
// or None.
Result<Value> attribute_path(Runtime& runtime, Value item, const Value* path,
                             const Value* otherwise = nullptr);

}  // namespace neuronmm::text::jinja
