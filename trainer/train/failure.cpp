// Turns an error into an exit code and a reason. Finds a lack of memory in libraries' own words.
#include "trainer/train/failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "base/text/config_error.h"
#include "contract/record/host_memory.h"
#include "trainer/comm/communication_error.h"

namespace fsdp {
namespace {

// Looks for the words of drivers, cuBLAS, cuDNN and NCCL, which do not use libtorch's allocator.
// CUBLAS_STATUS_NOT_INITIALIZED is left out because it has other causes. A lack of memory is not
// among them here, because cuBLAS's handle is made while the GPU is empty (see begin_cublas).
bool says_out_of_memory(std::string_view reason) {
  constexpr std::array kWords = std::to_array<std::string_view>(
      {"out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
       "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
       "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "Failed to CUDA malloc",
       "Failed to CUDA calloc", "Failed to CUDA host alloc"});
  return std::ranges::any_of(
      kWords, [&](std::string_view words) { return reason.find(words) != std::string_view::npos; });
}

constexpr const char* kThreadRemedy =
    ": a thread cannot be had; raise the limit on processes (ulimit -u, pids.max of the cgroup), "
    "or lower threads_per_rank";

}  // namespace

Failure failure_of(const std::exception_ptr& error) {
  const auto failure = [](ExitCode code, const std::string& reason) {
    return Failure{says_out_of_memory(reason) ? ExitCode::kOutOfMemory : code, reason};
  };
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError& config_error) {
    return {ExitCode::kBadConfiguration, config_error.what()};
  } catch (const c10::OutOfMemoryError& memory_error) {
    return failure(ExitCode::kOutOfMemory, memory_error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return failure(ExitCode::kOutOfMemory, std::string(kNoHostMemory));
  } catch (const CommunicationError& communication_error) {
    return failure(ExitCode::kCommunication, communication_error.what());
  } catch (const c10::DistBackendError& backend_error) {
    return failure(ExitCode::kCommunication, backend_error.what_without_backtrace());
  } catch (const c10::Error& torch_error) {
    return failure(ExitCode::kRunFailed, torch_error.what_without_backtrace());
  } catch (const std::system_error& system_error) {
    // Does not search the text: no device raises this error, and the text may contain any file
    // name.
    const bool lacks_threads = system_error.code() == std::errc::resource_unavailable_try_again;
    return {ExitCode::kRunFailed,
            system_error.what() + std::string(lacks_threads ? kThreadRemedy : "")};
  } catch (const std::exception& other_error) {
    return failure(ExitCode::kRunFailed, other_error.what());
  }
}

}  // namespace fsdp
