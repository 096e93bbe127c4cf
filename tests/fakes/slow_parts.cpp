#include <ATen/ATen.h>
#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace at::native {
// libtorch_cpu defines this function, but no header of the wheel declares it.
void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha);
}  // namespace at::native

namespace {

// Sleeps `times` SLOW_MS if SLOW_PART is `part`, and SLOW_RANK is this rank or not set.
void slow_down(std::string_view part, double times = 1) {
  static const char* const slow_part = std::getenv("SLOW_PART");
  static const char* const time_ms = std::getenv("SLOW_MS");
  static const char* const rank = std::getenv("SLOW_RANK");
  static const char* const own = std::getenv("RANK");
  if (slow_part == nullptr || time_ms == nullptr || part != slow_part) return;
  if (rank != nullptr && (own == nullptr || std::string_view(rank) != own)) return;
  usleep(static_cast<useconds_t>(1'000 * times * std::atof(time_ms)));
}

template <typename Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_data(int file) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), error);
  return path.extension() == ".npy";
}

// True for each product, or in each step for the one that SLOW_CALL names.
thread_local int products_of_step = 0;
bool is_slow_product() {
  static const char* const call = std::getenv("SLOW_CALL");
  return call == nullptr || products_of_step++ == std::atoi(call);
}

// The exchange of ranks of one host reads larger parts than this only for gathers.
constexpr size_t kChunkBytes = 256 << 10;
constexpr double kMebibyte = 1 << 20;

}  // namespace

// Preloaded into ranks. Each call of one part of their step takes SLOW_MS longer. SLOW_PART is
// optimizer, products, gather, reduce, data or link. Each MiB of a link takes SLOW_MS longer. A
// test thereby knows the cause of a difference. SLOW_CALL is the number of the one product that is
// slower in each step, from 0; not set: all are.

extern "C" ssize_t pread(int file, void* bytes, size_t size, off_t offset) {
  static const auto original = next(&pread, "pread");
  if (is_data(file)) slow_down("data");
  return original(file, bytes, size, offset);
}

extern "C" ssize_t process_vm_readv(pid_t process, const iovec* local, unsigned long local_count,
                                    const iovec* remote, unsigned long remote_count,
                                    unsigned long flags) noexcept {
  static const auto original = next(&process_vm_readv, "process_vm_readv");
  slow_down(local->iov_len > kChunkBytes ? "gather" : "reduce");
  slow_down("link", static_cast<double>(local->iov_len) / kMebibyte);
  return original(process, local, local_count, remote, remote_count, flags);
}

namespace at::_ops {

at::Tensor& addmm_out::call(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                            const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  static const auto original = next(
      &addmm_out::call, "_ZN2at4_ops9addmm_out4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_RS2_");
  if (is_slow_product()) slow_down("products");
  return original(self, a, b, beta, alpha, out);
}

void _fused_adamw_::call(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs,
                         at::TensorList exp_avg_sqs, at::TensorList max_exp_avg_sqs,
                         at::TensorList state_steps, double lr, double beta1, double beta2,
                         double weight_decay, double eps, bool amsgrad, bool maximize,
                         const ::std::optional<at::Tensor>& grad_scale,
                         const ::std::optional<at::Tensor>& found_inf) {
  static const auto original = next(&_fused_adamw_::call,
                                    "_ZN2at4_ops13_fused_adamw_4callEN3c108ArrayRefINS_"
                                    "6TensorEEES5_S5_S5_S5_S5_dddddbbRKSt8optional"
                                    "IS4_ES9_");
  slow_down("optimizer");
  products_of_step = 0;
  original(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2,
           weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

}  // namespace at::_ops

namespace at::native {

void mkldnn_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta,
                   float alpha) {
  static const auto original =
      next(&mkldnn_matmul, "_ZN2at6native13mkldnn_matmulERKNS_6TensorES3_S3_ff");
  if (is_slow_product()) slow_down("products");
  original(a, b, result, beta, alpha);
}

}  // namespace at::native
