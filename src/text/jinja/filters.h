#pragma once
// Jinja's filters by where they are written. filters.cc has their names.

#include "text/jinja/arguments.h"
#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

using Filtered = Result<Value>;

// filters_text.cc
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

// filters_list.cc
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

// filters_order.cc
Filtered filter_dictsort(Runtime&, const Value&, const Arguments&);
Filtered filter_groupby(Runtime&, const Value&, const Arguments&);
Filtered filter_max(Runtime&, const Value&, const Arguments&);
Filtered filter_min(Runtime&, const Value&, const Arguments&);
Filtered filter_sort(Runtime&, const Value&, const Arguments&);
Filtered filter_unique(Runtime&, const Value&, const Arguments&);

// The attribute "a.0.b" of an item; without an attribute (null, None) the item itself.
// `otherwise`: instead of an undefined value on the way, unless null.
Result<Value> attribute_path(Runtime& runtime, Value item, const Value* path,
                             const Value* otherwise = nullptr);

}  // namespace neuronmm::text::jinja
