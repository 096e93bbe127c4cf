#include <dlfcn.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdlib>

// Preloaded into a program. Call number FORK_FAILS_AT of fork() or vfork() fails as if no more
// processes were allowed. Calls are counted from 1, and a child continues its parent's count.
extern "C" pid_t fork() noexcept {
  static const char* const limit = std::getenv("FORK_FAILS_AT");
  static long calls = 0;
  if (limit != nullptr && ++calls == std::atol(limit)) {
    errno = EAGAIN;
    return -1;
  }
  static const auto original = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "fork"));
  return original();
}

// A vfork() in C++ would return twice into the same frame.
extern "C" pid_t vfork() noexcept { return fork(); }
