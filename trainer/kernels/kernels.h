#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/kernels/documents.h"

// A layer's calls to a device, beyond views and allocation. Each is one call, so a device can have
// its own fused kernel for it.
//
// All tensors are on one device. On meta, a call only allocates, as on the planned device.
// Everything runs on the current stream, on the calling thread.
//
// Shape suffixes: N tokens of all sequences, D hidden_size, F intermediate_size, O any output
// width, E packed heads, C tokens of one chunk, V vocabulary.
namespace fsdp {

// False in a CUDA program built without nvcc: it lacks the kernels of NF4 and of Adam's 8-bit and
// bf16 state. A CPU-only program plans for a program that has them.
#if defined(FSDP_CUDA) && !defined(FSDP_CUDA_KERNELS)
inline constexpr bool kHasCudaKernels = false;
#else
inline constexpr bool kHasCudaKernels = true;
#endif

// A gradient that several writers share: the first overwrites it, and later ones add to it.
struct GradientBuffer {
  at::Tensor tensor;  // undefined: the first writer provides it
  bool is_written = false;

  // Adds `term`, of any floating-point type. If `tensor` is undefined, it becomes `term` without a
  // copy.
  void add(const at::Tensor& term);
  // Returns the sum of all writers' terms to its one reader.
  at::Tensor take();
};

// The heads packed in the last dimension of a query-key-value product, in this order.
struct AttentionHeads {
  int64_t query = 1;
  int64_t key_value = 1;  // divides query: each serves query / key_value query heads
  int64_t width = 1;      // of one head
  // The most tokens that a query sees within documents: itself and those before it; 0: all.
  int64_t window = 0;
};

struct Dropout {
  double probability = 0;  // below 1
  uint64_t seed = 0;
};

// The tensors from which a device rotates queries and keys by their positions, and the sequences of
// these tokens. Made by Kernels::rotary_table.
struct RotaryTable {
  int64_t sequence_length = 0;  // with documents: all tokens
  DocumentsPtr documents;       // null: every sequence is one document
  std::vector<at::Tensor> tensors;
  // True if sequence_length varies between batches. Preparing a kernel for one length is then not
  // worthwhile.
  bool lengths_vary = false;
};

// To add a kernel, such as swiglu_backward: declare its result and its allocations here. Write the
// reference in trainer/kernels/aten_kernels.cpp, and call it in trainer/model/layers.cpp. Operators
// without a meta version go through trainer/kernels/launch.h. Compare it with autograd in
// tests/trainer/kernels/aten_kernels_test.cpp, and on a device in
// trainer/self_test/kernel_checks.cpp. trainer/kernels/transformer_engine_kernels.cpp may have a
// faster version. CUDA of our own is like trainer/kernels/swiglu.cu and trainer/kernels/swiglu.cuh;
// tests/trainer/kernels/emulated_kernels_test.cpp runs it on the host.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // --- products; all matrices are 2-dimensional and may be views ---

  // Computes out = scale * a b, or out += scale * a b. Used for products with a weight.
  virtual void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                        bool accumulate = false, double scale = 1.0) = 0;
  // Sets a weight's gradient to scale * a b, or adds it. The gradient's tensor is defined, and has
  // a's type or fp32.
  virtual void multiply_gradient(GradientBuffer& gradient, const at::Tensor& a, const at::Tensor& b,
                                 double scale = 1.0) = 0;

  // --- frozen weights of 4 bits (nf4_layout.h) ---

  // Sets `out`, contiguous and of a float type, to the values of a tensor's bytes.
  virtual void dequantize_nf4(const at::Tensor& bytes, const at::Tensor& out) = 0;

  // --- RMSNorm (Zhang and Sennrich 2019): y = x / root mean square(x) * weight ---

  // The mean square and reciprocal_rms are fp32 (fp64 for fp64). reciprocal_rms has one number per
  // token.
  struct RmsNorm {
    at::Tensor y_ND;
    at::Tensor reciprocal_rms_N1;
  };
  virtual RmsNorm rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon) = 0;
  // Returns y of rms_norm once more.
  virtual at::Tensor rms_norm_again(const at::Tensor& x_ND, const at::Tensor& reciprocal_rms_N1,
                                    const at::Tensor& weight_D, double epsilon) = 0;
  // Consumes dy_ND. dweight_D is null if the weight is frozen; else its tensor is defined. dx_ND
  // holds the residual stream's gradient so far. Its tensor may be undefined.
  virtual void rms_norm_backward(at::Tensor dy_ND, const at::Tensor& x_ND,
                                 const at::Tensor& reciprocal_rms_N1, const at::Tensor& weight_D,
                                 GradientBuffer* dweight_D, GradientBuffer& dx_ND) = 0;

  // --- SwiGLU (Shazeer 2020): h = silu(gate) * up, gate and up being the halves of the columns ---

  virtual at::Tensor swiglu(const at::Tensor& gate_up_N2F) = 0;
  // dh_NF is consumed. Returns h once more, because the next weight's gradient needs it.
  struct SwigluGradients {
    at::Tensor h_NF;
    at::Tensor d_gate_up_N2F;
  };
  virtual SwigluGradients swiglu_backward(at::Tensor dh_NF, const at::Tensor& gate_up_N2F) = 0;

  // --- attention ---

  // `angles` is [T, width / 2] for positions 0 to T - 1, or with documents [N, width / 2] for every
  // token's own position. The angles are fp32 (fp64 for fp64), on the device. The table is first
  // rounded to `buffer_type`, then converted to `type`, the activations' type.
  virtual RotaryTable rotary_table(const at::Tensor& angles, const DocumentsPtr& documents,
                                   at::ScalarType buffer_type, at::ScalarType type,
                                   bool lengths_vary = false) = 0;

  // True if there is attention in `dtype`.
  virtual bool has_attention(at::ScalarType dtype) const = 0;

  // Computes causal attention after the rotary embedding of queries and keys, scaled by 1 /
  // sqrt(width). The embedding rotates element i of a head's first half with element i of its
  // second half (Su et al. 2021). Sequences of table.sequence_length follow each other. If the
  // table has documents, attention stays within each of them and within heads.window. qkv_NE is
  // consumed. `out` is [N, query * width]. `saved` holds the other tensors that attention_backward
  // reads, in the kernel's own order; empty unless `for_backward`.
  struct Attention {
    at::Tensor out;
    std::vector<at::Tensor> saved;
  };
  virtual Attention attention(at::Tensor qkv_NE, const AttentionHeads& heads,
                              const RotaryTable& table, bool for_backward) = 0;
  // Returns the gradient of qkv_NE. `forward` is consumed.
  virtual at::Tensor attention_backward(const at::Tensor& dout, Attention forward,
                                        const AttentionHeads& heads, const RotaryTable& table) = 0;

  // T5's attention (Raffel et al. 2020): softmax(q k^T + bias) v of each head, unscaled.
  struct BiasedAttention {
    at::Tensor q_BTHW;
    at::Tensor k_BSHW;
    at::Tensor v_BSHW;
    at::Tensor bias_HTS;  // undefined: none
    bool is_bias_frozen = false;
    // The number of keys that the queries of each row see, int64, at least 1. Undefined: all keys.
    at::Tensor key_counts_B;
    bool is_causal = false;  // query t sees keys up to t
    Dropout dropout{};       // of the softmax
  };
  // `out` is [B * T, H * W].
  virtual Attention biased_attention(const BiasedAttention& call, bool for_backward) = 0;
  // Gradients have the types of q, k and v. A bias's gradient is fp32 (fp64 for fp64); undefined
  // if the bias is undefined or frozen.
  struct BiasedAttentionGradients {
    at::Tensor dq_BTHW;
    at::Tensor dk_BSHW;
    at::Tensor dv_BSHW;
    at::Tensor dbias_HTS;
  };
  virtual BiasedAttentionGradients biased_attention_backward(const at::Tensor& dout,
                                                             const Attention& forward,
                                                             const BiasedAttention& call) = 0;

  // --- ReLU; GELU by tanh (Hendrycks and Gimpel 2016) times the second half of the columns ---

  virtual at::Tensor relu(const at::Tensor& x_NF) = 0;
  // dy_NF is consumed.
  virtual at::Tensor relu_backward(at::Tensor dy_NF, const at::Tensor& x_NF) = 0;
  virtual at::Tensor gated_gelu(const at::Tensor& gate_up_N2F) = 0;
  virtual at::Tensor gated_gelu_backward(const at::Tensor& dh_NF,
                                         const at::Tensor& gate_up_N2F) = 0;

  // --- dropout (Srivastava et al. 2014) ---

  // Returns x with elements dropped, and the others scaled by 1 / (1 - probability). The choice
  // depends only on the seed and the shape. The gradient is the same function of dy.
  virtual at::Tensor dropped(const at::Tensor& x, const Dropout& dropout) = 0;

  // --- embedding ---

  virtual at::Tensor embedding(const at::Tensor& weight_VD, const at::Tensor& token_ids_N) = 0;
  virtual void embedding_backward(const at::Tensor& dy_ND, const at::Tensor& token_ids_N,
                                  GradientBuffer& dweight_VD) = 0;

  // --- cross-entropy ---

  // Returns the most tokens of a chunk: the head computes logits one chunk at a time, to save
  // memory. Each chunk reads and writes the whole weight gradient.
  virtual int64_t chunk_tokens_max(int64_t logits_bytes_per_token) const = 0;
  // Computes loss_C1 = -log softmax(logits)[label], in fp32 (fp64 for fp64). The logits become its
  // gradient: the probabilities, minus 1 at the label. Computation between reading and writing a
  // logit is in fp32. Labels are int64, [C, 1], from 0 to V - 1.
  virtual void cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                             at::Tensor loss_C1) = 0;
  // Computes the loss alone. Returns each row's most likely token, int64 [C, 1]. Consumes the
  // logits.
  virtual at::Tensor evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                            at::Tensor loss_C1) = 0;
};

}  // namespace fsdp
