#pragma once
// What becomes of memory that is let go.

namespace neuronmm {

// Work that goes from layer to layer makes matrices as large as the last one's again and again.
// glibc would hand their memory back to the system, which clears it for the next: a tenth of the
// processor time of a short compression of SmolLM2, 172 s before and 154 s after (Zen 3, one run
// each, the same settings made by GLIBC_TUNABLES). From here on the process keeps what is freed.
void keep_freed_memory();

// Gives the system what is free. Between works one of which needs what another let go: the search
// for a model of 1.2 billion parameters held 6.7 GB while it rounded, which takes 2.7 by itself.
void return_freed_memory();

}  // namespace neuronmm
