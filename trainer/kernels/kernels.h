#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/kernels/documents.h"

// What a layer asks of a device beyond views and allocation, each as one call, so that a device can
// have its own, fused kernel for it.
//
// All tensors are on one device, which may be meta: then a call allocates what it would on the
// device that is planned for, and computes nothing. Everything runs on the current stream, on the
// calling thread.
//
// Shape suffixes: N tokens of all sequences, D hidden_size, F intermediate_size, O any output
// width, E packed heads, C tokens of one chunk, V vocabulary.
namespace fsdp {

// A gradient that several writers share: the first overwrites what is there, later ones add.
struct GradientBuffer {
  at::Tensor tensor;  // undefined: the first writer gives it
  bool is_written = false;

  // Adds `term`, of any floating-point type, or becomes it; where no tensor is given, that is not
  // copied.
  void add(const at::Tensor& term);
  // What all writers added, for its one reader.
  at::Tensor take();
};

// The heads packed in the last dimension of a query-key-value product, in this order.
struct AttentionHeads {
  int64_t query = 1;
  int64_t key_value = 1;  // divides query: each serves query / key_value query heads
  int64_t width = 1;      // of one head
  // How many tokens a query sees at most, itself and those before it, within documents; 0: all.
  int64_t window = 0;
};

struct Dropout {
  double probability = 0;  // below 1
  uint64_t seed = 0;
};

// What of the rotary embedding a device reads, and of which tokens it is; made by
// Kernels::rotary_table.
struct RotaryTable {
  int64_t sequence_length = 0;  // with documents: all tokens
  DocumentsPtr documents;       // null: every sequence is one document
  std::vector<at::Tensor> tensors;
  // Sequences of many lengths follow each other, so that no kernel is worth preparing for one.
  bool lengths_vary = false;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  // --- products; all matrices are 2-dimensional and may be views ---

  // out = scale * a b, or out += scale * a b. For products with a weight.
  virtual void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                        bool accumulate = false, double scale = 1.0) = 0;
  // The gradient of a weight gets (or grows by) scale * a b. `gradient` is attached, and of the
  // type of a and b or fp32.
  virtual void multiply_gradient(GradientBuffer& gradient, const at::Tensor& a, const at::Tensor& b,
                                 double scale = 1.0) = 0;

  // --- RMSNorm (Zhang and Sennrich 2019): y = x / root mean square(x) * weight ---

  // The mean square is taken in fp32 for narrower types. reciprocal_rms: fp32 (fp64 for fp64), one
  // a token.
  struct RmsNorm {
    at::Tensor y_ND;
    at::Tensor reciprocal_rms_N1;
  };
  virtual RmsNorm rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon) = 0;
  // Its y once more.
  virtual at::Tensor rms_norm_again(const at::Tensor& x_ND, const at::Tensor& reciprocal_rms_N1,
                                    const at::Tensor& weight_D, double epsilon) = 0;
  // dy_ND is consumed. The weight's gradient is attached; that of x may be undefined, and is what
  // the residual stream has so far.
  virtual void rms_norm_backward(at::Tensor dy_ND, const at::Tensor& x_ND,
                                 const at::Tensor& reciprocal_rms_N1, const at::Tensor& weight_D,
                                 GradientBuffer& dweight_D, GradientBuffer& dx_ND) = 0;

  // --- SwiGLU (Shazeer 2020): h = silu(gate) * up, gate and up being the halves of the columns ---

  virtual at::Tensor swiglu(const at::Tensor& gate_up_N2F) = 0;
  // dh_NF is consumed. Gives h once more, which the next weight's gradient needs.
  struct SwigluGradients {
    at::Tensor h_NF;
    at::Tensor d_gate_up_N2F;
  };
  virtual SwigluGradients swiglu_backward(at::Tensor dh_NF, const at::Tensor& gate_up_N2F) = 0;

  // --- attention ---

  // `angles` [T, width / 2] of positions 0 to T - 1, or with documents [N, width / 2] of every
  // token's own position; fp32 (fp64 for fp64), on the device. `buffer_type`: what the table is
  // rounded to first, `type`: that of the activations.
  virtual RotaryTable rotary_table(const at::Tensor& angles, const DocumentsPtr& documents,
                                   at::ScalarType buffer_type, at::ScalarType type,
                                   bool lengths_vary = false) = 0;

  // Whether there is attention of heads of this width in `dtype`.
  virtual bool has_attention(at::ScalarType dtype, int64_t head_width) const = 0;

  // Causal attention after the rotary embedding of queries and keys (Su et al. 2021, element i of a
  // head's first half being rotated with element i of its second), scaled by 1 / sqrt(width).
  // Sequences of table.sequence_length follow each other; where the table has documents, attention
  // stays within each, and within heads.window. qkv_NE is consumed. out: [N, query * width].
  // `saved` is what attention_backward reads besides `out`, in an order of the kernel's own; empty
  // when not `for_backward`.
  struct Attention {
    at::Tensor out;
    std::vector<at::Tensor> saved;
  };
  virtual Attention attention(at::Tensor qkv_NE, const AttentionHeads& heads,
                              const RotaryTable& table, bool for_backward) = 0;
  // The gradient of qkv_NE. `forward` is consumed.
  virtual at::Tensor attention_backward(const at::Tensor& dout, Attention forward,
                                        const AttentionHeads& heads, const RotaryTable& table) = 0;

  // The attention of T5 (Raffel et al. 2020): softmax(q k^T + bias) v of each head, not scaled.
  struct BiasedAttention {
    at::Tensor q_BTHW;
    at::Tensor k_BSHW;
    at::Tensor v_BSHW;
    at::Tensor bias_HTS;  // undefined: none
    at::Tensor
        key_counts_B;  // int64, at least 1: keys from there on are not seen; undefined: all are
    bool is_causal = false;  // query t sees keys up to t
    Dropout dropout{};       // of the softmax
  };
  // out: [B * T, H * W].
  virtual Attention biased_attention(const BiasedAttention& call, bool for_backward) = 0;
  // In the types of q, k and v; that of the bias, where there is one, in fp32 (fp64 for fp64).
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

  // x with elements dropped, and the others scaled by 1 / (1 - probability); which ones follows
  // from the seed and the shape alone. Its gradient is the same of dy.
  virtual at::Tensor dropped(const at::Tensor& x, const Dropout& dropout) = 0;

  // --- embedding ---

  virtual at::Tensor embedding(const at::Tensor& weight_VD, const at::Tensor& token_ids_N) = 0;
  virtual void embedding_backward(const at::Tensor& dy_ND, const at::Tensor& token_ids_N,
                                  GradientBuffer& dweight_VD) = 0;

  // --- cross-entropy ---

  // How many tokens a chunk of the head has at most: the whole weight gradient is read and written
  // once a chunk.
  virtual int64_t chunk_tokens_max(int64_t logits_bytes_per_token) const = 0;
  // loss_C1 (fp32, fp64 for fp64) = -log softmax(logits)[label]; the logits become its gradient:
  // the probabilities, less 1 at the label. In fp32 between reading and writing a logit. Labels are
  // int64, [C, 1], from 0 to V - 1.
  virtual void cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                             at::Tensor loss_C1) = 0;
  // The loss alone. Returns the most likely token of each row, int64 [C, 1]. Consumes the logits.
  virtual at::Tensor evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                            at::Tensor loss_C1) = 0;
};

}  // namespace fsdp
