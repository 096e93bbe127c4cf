// NCCL with collectives that copy nothing. A collective is complete when every rank of its
// communicator has issued it. Ranks are on one host and meet in shared memory.
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
  int rank, size;
  std::atomic<bool> is_aborted = false;
};

namespace {

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

// `sent` and `received` are numbers of elements. `how`: see Collective.
ncclResult_t issue(const char* name, const void* from, size_t sent, void* to, size_t received,
                   ncclDataType_t type, int how, ncclComm_t comm, cudaStream_t stream) {
  const size_t count = std::min(sent, received);
  fsdp::fake_cuda::issue(stream, name,
                         {{from, sent * bytes_of(type), /*is_write=*/false},
                          {to, received * bytes_of(type), /*is_write=*/true}});
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
  if (size > kRanks) return ncclInvalidArgument;
  Meeting* meeting = open_meeting(id);
  if (meeting == nullptr) return ncclSystemError;
  if (++meeting->arrived == size) shm_unlink(id.internal);
  while (meeting->arrived < size) std::this_thread::yield();
  *comm = new ncclComm{meeting, rank, size};
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

// The communicator is not freed, as streams may still ask for it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->is_aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) { return *error = ncclSuccess; }

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t, void*, size_t, void**) { return ncclSuccess; }
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue("all_gather", from, count, to, count * comm->size, type, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return issue("reduce_scatter", from, count * comm->size, to, count, type, operation, comm,
               stream);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return issue("all_reduce", from, count, to, count, type, operation, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return issue("broadcast", from, count, to, count, type, root, comm, stream);
}

ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, comm, stream);
}

}  // extern "C"
