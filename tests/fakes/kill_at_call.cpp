#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

// Preloaded into a program. Kills it with SIGKILL before call number KILL_AT_CALL, from 1, that
// changes a file system. A power cut at that moment would leave the same files.
namespace {

void count_call() {
  static const char* const limit = getenv("KILL_AT_CALL");
  static std::atomic<long> calls = 0;
  if (limit != nullptr && ++calls == atol(limit)) raise(SIGKILL);
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define COUNTED(result, name, parameters, arguments)                \
  extern "C" result name parameters noexcept {                      \
    count_call();                                                   \
    static const auto original = next<result(*) parameters>(#name); \
    return original arguments;                                      \
  }

COUNTED(int, unlink, (const char* path), (path))
COUNTED(int, rmdir, (const char* path), (path))
COUNTED(int, remove, (const char* path), (path))
COUNTED(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags))
COUNTED(int, rename, (const char* from, const char* to), (from, to))
COUNTED(int, mkdir, (const char* path, mode_t mode), (path, mode))
COUNTED(int, ftruncate64, (int file, off64_t size), (file, size))

// Programs call either of these.
#define COUNTED_WRITE(name)                                                                   \
  extern "C" ssize_t name(int file, const void* bytes, size_t count, off64_t offset) {        \
    count_call();                                                                             \
    static const auto original = next<ssize_t (*)(int, const void*, size_t, off64_t)>(#name); \
    return original(file, bytes, count, offset);                                              \
  }

COUNTED_WRITE(pwrite)
COUNTED_WRITE(pwrite64)
