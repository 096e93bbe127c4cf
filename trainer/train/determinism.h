#pragma once

namespace fsdp {

// Limits libtorch and the libraries below it to algorithms that give the same bits every time, for
// train.deterministic. It applies to the whole process; call it before the first use of a GPU.
// Unlike libtorch's default, new buffers are not filled, because all memory is written before it is
// read. Throws ConfigError if the user's CUBLAS_WORKSPACE_CONFIG lets cuBLAS choose between
// algorithms.
void make_deterministic();

}  // namespace fsdp
