#pragma once

namespace fsdp {

// Has libtorch and the libraries below it take, in this process from now on, only algorithms that
// give the same bits every time, for train.deterministic; before the first use of a GPU. Buffers
// are not filled first, as libtorch otherwise does then: all that is read here was written. Throws
// ConfigError when the user's CUBLAS_WORKSPACE_CONFIG leaves cuBLAS a choice.
void make_deterministic();

}  // namespace fsdp
