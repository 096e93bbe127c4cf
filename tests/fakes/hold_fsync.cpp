#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

// Preloaded into a program. Each fsync waits until someone opens the FIFO HOLD_FSYNC for writing.
// This imitates a disk as slow as a test wants.
extern "C" int fsync(int file) {
  static const char* const fifo = std::getenv("HOLD_FSYNC");
  if (fifo != nullptr) close(open(fifo, O_RDONLY | O_CLOEXEC));
  static const auto original = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  return original(file);
}
