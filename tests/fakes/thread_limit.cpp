#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

// Preloaded into a process, which can then start only THREAD_LIMIT threads. `ulimit -u` does the
// same, but not for root. With THREAD_LIMIT_HANGS a further thread never starts and never fails.
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
