#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

// Preloaded, lets a process start THREAD_LIMIT threads, and no more: as `ulimit -u` does, which
// means nothing to root. With THREAD_LIMIT_HANGS a further one never comes and never fails.
namespace {

std::atomic<int> started = 0;

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*routine)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const char* limit = std::getenv("THREAD_LIMIT");
  if (limit != nullptr && started++ >= std::atoi(limit)) {
    while (std::getenv("THREAD_LIMIT_HANGS") != nullptr) pause();
    return EAGAIN;
  }
  void* const symbol = dlsym(RTLD_NEXT, "pthread_create");
  Create create;
  std::memcpy(&create, &symbol, sizeof(create));
  return create(thread, attributes, routine, argument);
}
