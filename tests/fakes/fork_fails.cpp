#include <dlfcn.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdlib>

// Preloaded into a program, the call number FORK_FAILS_AT of fork(), from 1 and counted on in each
// child, fails as it does where no more processes are allowed.
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
