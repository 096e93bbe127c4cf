// NCCL with collectives that copy nothing. A collective is complete when every rank of its
// communicator has issued it. To finalize or to destroy one waits for all ranks. Ranks are on one
// host and meet in shared memory.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/state.h"

namespace {

constexpr int kRanks = 64;
// The latest collectives of a rank that are kept. A rank is at most half as many ahead of others.
constexpr uint64_t kKept = 4096;

// All ranks must agree on this.
struct Collective {
  std::array<char, 16> name;
  size_t count;
  ncclDataType_t type;
  int how;  // the operation of a reduction, the root of a broadcast, or 0
  bool operator==(const Collective&) const = default;
};

const char* name_of(ncclDataType_t type) {
  constexpr const char* kNames[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                    "uint64", "float16", "float32", "float64", "bfloat16"};
  return static_cast<size_t>(type) < std::size(kNames) ? kNames[type] : "another type";
}

// "all_reduce of 64 float32"; then " (2)" for another operation than a sum, or another root than 0.
std::string text_of(const Collective& collective) {
  std::string text = std::string(collective.name.data()) + " of " +
                     std::to_string(collective.count) + " " + name_of(collective.type);
  return collective.how == 0 ? text : text + " (" + std::to_string(collective.how) + ")";
}

struct Meeting {
  std::atomic<int> arrived;
  std::atomic<int> finalized;
  std::array<std::atomic<bool>, kRanks> is_taken;  // by a rank
  std::array<std::atomic<int>, kRanks> gpus;       // of the ranks
  std::array<std::atomic<uint64_t>, kRanks> issued;
  std::array<std::array<Collective, kKept>, kRanks> collectives;
};

Meeting* open_meeting(const ncclUniqueId& id) {
  const int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Meeting)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Meeting*>(memory);
}

}  // namespace

struct ncclComm {
  Meeting* meeting;
  int rank, size, device;
  std::atomic<bool> is_finalized = false;
  std::atomic<bool> is_aborted = false;
};

namespace {

std::mutex mutex;
std::set<ncclComm_t>& communicators = *new std::set<ncclComm_t>;  // that are not destroyed

bool is_alive(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  return communicators.contains(comm);
}

void compare(const ncclComm& comm, uint64_t number) {
  const Collective& first = comm.meeting->collectives[0][number % kKept];
  for (int rank = 1; rank < comm.size; ++rank) {
    const Collective& other = comm.meeting->collectives[rank][number % kKept];
    if (other == first) continue;
    fsdp::fake_cuda::add_hazard("collective " + std::to_string(number) + " is " + text_of(first) +
                                " on rank 0, and " + text_of(other) + " on rank " +
                                std::to_string(rank));
  }
}

// The collectives of a communicator are numbered from 1.
bool is_complete(const ncclComm& comm, uint64_t number) {
  if (comm.is_aborted) return true;
  for (int rank = 0; rank < comm.size; ++rank) {
    if (comm.meeting->issued[rank] < number) return false;
  }
  compare(comm, number);
  return true;
}

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 1;
  }
}

// The elements that an operation reads or writes.
struct Elements {
  const void* begin;
  size_t count;
};

// A rank's part may be in its place of the whole. Other overlaps are written while they are read.
bool is_in_place(const ncclComm& comm, const Elements& from, const Elements& to, size_t item) {
  const auto first = [](const Elements& x) { return reinterpret_cast<uintptr_t>(x.begin); };
  const bool is_gathered = to.count > from.count;
  const Elements& whole = is_gathered ? to : from;
  const Elements& part = is_gathered ? from : to;
  const bool is_apart = first(part) + part.count * item <= first(whole) ||
                        first(whole) + whole.count * item <= first(part);
  const bool is_same = whole.count == part.count && part.begin == whole.begin;
  return is_apart || is_same ||
         first(part) == first(whole) + static_cast<size_t>(comm.rank) * part.count * item;
}

ncclResult_t check(ncclComm_t comm, const Elements& from, const Elements& to, ncclDataType_t type,
                   cudaStream_t stream) {
  using fsdp::fake_cuda::device_of;
  if (!is_alive(comm) || comm->is_finalized || comm->is_aborted) return ncclInvalidArgument;
  if (type < ncclInt8 || type >= ncclNumTypes) return ncclInvalidArgument;
  if (device_of(stream) != comm->device) return ncclUnhandledCudaError;
  for (const Elements& elements : {from, to}) {
    const size_t bytes = elements.count * bytes_of(type);
    if (bytes == 0) continue;
    if (device_of(elements.begin, bytes) != comm->device) return ncclInvalidArgument;
    if (reinterpret_cast<uintptr_t>(elements.begin) % bytes_of(type) != 0) {
      return ncclInvalidArgument;
    }
  }
  return is_in_place(*comm, from, to, bytes_of(type)) ? ncclSuccess : ncclInvalidUsage;
}

// `how`: see Collective.
ncclResult_t issue(const char* name, Elements from, Elements to, ncclDataType_t type, int how,
                   ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t refusal = check(comm, from, to, type, stream); refusal != ncclSuccess) {
    return refusal;
  }
  const size_t count = std::min(from.count, to.count);
  fsdp::fake_cuda::issue(stream, name,
                         {{from.begin, from.count * bytes_of(type), /*is_write=*/false},
                          {to.begin, to.count * bytes_of(type), /*is_write=*/true}});
  Meeting& meeting = *comm->meeting;
  const uint64_t number = meeting.issued[comm->rank] + 1;
  while (number > kKept / 2 && !is_complete(*comm, number - kKept / 2)) std::this_thread::yield();
  Collective& collective = meeting.collectives[comm->rank][number % kKept];
  collective = {{}, count, type, how};
  std::strncpy(collective.name.data(), name, collective.name.size() - 1);
  meeting.issued[comm->rank] = number;
  fsdp::fake_cuda::wait_for(stream, [comm, number] { return is_complete(*comm, number); });
  return ncclSuccess;
}

ncclResult_t reduce(const char* name, Elements from, Elements to, ncclDataType_t type,
                    ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (operation < ncclSum || operation >= ncclNumOps) return ncclInvalidArgument;
  return issue(name, from, to, type, operation, comm, stream);
}

// Waits until all ranks have called it, like NCCL, unless this rank aborts.
void finalize(ncclComm& comm) {
  if (comm.is_finalized.exchange(true)) return;
  ++comm.meeting->finalized;
  while (comm.meeting->finalized < comm.size && !comm.is_aborted) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

thread_local int open_groups = 0;

bool is_shared_gpu(const Meeting& meeting, int size, int rank) {
  for (int other = 0; other < size; ++other) {
    if (other != rank && meeting.gpus[other] == meeting.gpus[rank]) return true;
  }
  return false;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t) { return "an error of the fake NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  // The name is always new, as a killed process leaves its shared memory behind.
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  std::snprintf(id->internal, sizeof(id->internal), "/fake_nccl.%d.%ld", getpid(), now.count());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  if (comm == nullptr || size < 1 || size > kRanks || rank < 0 || rank >= size) {
    return ncclInvalidArgument;
  }
  if (fsdp::fake_cuda::is_full_in("ncclCommInitRank")) return ncclSystemError;
  Meeting* meeting = open_meeting(id);
  if (meeting == nullptr) return ncclSystemError;
  if (meeting->is_taken[rank].exchange(true)) return ncclInvalidUsage;
  meeting->gpus[rank] = fsdp::fake_cuda::current_device();
  if (++meeting->arrived == size) shm_unlink(id.internal);
  while (meeting->arrived < size) std::this_thread::yield();
  if (is_shared_gpu(*meeting, size, rank)) return ncclInvalidUsage;
  *comm = new ncclComm{meeting, rank, size, fsdp::fake_cuda::current_device()};
  const std::lock_guard lock(mutex);
  communicators.insert(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

// A communicator is never freed, as streams may still ask for it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  if (communicators.erase(comm) == 0) return ncclInvalidArgument;
  comm->is_aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!is_alive(comm) || comm->is_finalized) return ncclInvalidArgument;
  finalize(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  finalize(*comm);
  const std::lock_guard lock(mutex);
  communicators.erase(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  return *error = ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  *count = comm->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t, void*, size_t, void**) { return ncclSuccess; }
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_groups == 0) return ncclInvalidUsage;
  --open_groups;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  return issue("all_gather", {from, count}, {to, count * comm->size}, type, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (!is_alive(comm)) return ncclInvalidArgument;
  return reduce("reduce_scatter", {from, count * comm->size}, {to, count}, type, operation, comm,
                stream);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return reduce("all_reduce", {from, count}, {to, count}, type, operation, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (!is_alive(comm) || root < 0 || root >= comm->size) return ncclInvalidArgument;
  return issue("broadcast", {from, count}, {to, count}, type, root, comm, stream);
}

ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, comm, stream);
}

}  // extern "C"
