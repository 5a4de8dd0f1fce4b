#pragma once
// Jinja's filters, grouped by the file that implements them. filters.cc has the table of their
// names.

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

using Filtered = Result<Value>;

// Implemented in filters_text.cc.
Filtered filter_capitalize(Runtime&, const Value&, const Arguments&);
Filtered filter_center(Runtime&, const Value&, const Arguments&);
Filtered filter_escape(Runtime&, const Value&, const Arguments&);
Filtered filter_forceescape(Runtime&, const Value&, const Arguments&);
Filtered filter_format(Runtime&, const Value&, const Arguments&);
Filtered filter_indent(Runtime&, const Value&, const Arguments&);
Filtered filter_join(Runtime&, const Value&, const Arguments&);
Filtered filter_lower(Runtime&, const Value&, const Arguments&);
Filtered filter_replace(Runtime&, const Value&, const Arguments&);
Filtered filter_safe(Runtime&, const Value&, const Arguments&);
Filtered filter_string(Runtime&, const Value&, const Arguments&);
Filtered filter_title(Runtime&, const Value&, const Arguments&);
Filtered filter_tojson(Runtime&, const Value&, const Arguments&);
Filtered filter_trim(Runtime&, const Value&, const Arguments&);
Filtered filter_truncate(Runtime&, const Value&, const Arguments&);
Filtered filter_upper(Runtime&, const Value&, const Arguments&);
Filtered filter_wordcount(Runtime&, const Value&, const Arguments&);

// Implemented in filters_list.cc.
Filtered filter_batch(Runtime&, const Value&, const Arguments&);
Filtered filter_first(Runtime&, const Value&, const Arguments&);
Filtered filter_items(Runtime&, const Value&, const Arguments&);
Filtered filter_last(Runtime&, const Value&, const Arguments&);
Filtered filter_length(Runtime&, const Value&, const Arguments&);
Filtered filter_list(Runtime&, const Value&, const Arguments&);
Filtered filter_map(Runtime&, const Value&, const Arguments&);
Filtered filter_reject(Runtime&, const Value&, const Arguments&);
Filtered filter_rejectattr(Runtime&, const Value&, const Arguments&);
Filtered filter_reverse(Runtime&, const Value&, const Arguments&);
Filtered filter_select(Runtime&, const Value&, const Arguments&);
Filtered filter_selectattr(Runtime&, const Value&, const Arguments&);
Filtered filter_slice(Runtime&, const Value&, const Arguments&);
Filtered filter_sum(Runtime&, const Value&, const Arguments&);

// Implemented in filters_order.cc.
Filtered filter_dictsort(Runtime&, const Value&, const Arguments&);
Filtered filter_groupby(Runtime&, const Value&, const Arguments&);
Filtered filter_max(Runtime&, const Value&, const Arguments&);
Filtered filter_min(Runtime&, const Value&, const Arguments&);
Filtered filter_sort(Runtime&, const Value&, const Arguments&);
Filtered filter_unique(Runtime&, const Value&, const Arguments&);

// Returns the attribute of an item that a path such as "a.0.b" names. Without a path (null, None),
// it returns the item itself. `otherwise` replaces undefined values on the path unless it is null
// or None.
Result<Value> attribute_path(Runtime& runtime, Value item, const Value* path,
                             const Value* otherwise = nullptr);

}  // namespace neuronmm::text::jinja
