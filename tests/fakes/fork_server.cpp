#include <dlfcn.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

// Preloaded into a program. Loads the program's libraries once, as libtorch's take half a second.
// Then forks for each start of the program. The socket FORK_SERVER takes requests for starts.
// Each start has its own arguments, variables, working directory and standard streams. Its process
// is a child of the process that started the server.
namespace {

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

// The standard streams, and the working directory.
using Descriptors = std::array<int, 4>;

struct Request {
  Descriptors descriptors{};
  std::string words{};  // each ended by a 0: arguments, an empty word, variables as NAME=value
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  _exit(1);
}

// Returns false if no process is left that could send a request.
bool receive(int socket, Request& request) {
  request.words.resize(1 << 18);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Descriptors))> control{};
  iovec part{.iov_base = request.words.data(), .iov_len = request.words.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = recvmsg(socket, &message, 0);
  if (length <= 0) return false;
  if (CMSG_FIRSTHDR(&message) == nullptr || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    fail("fork_server: a request that is not whole");
  }
  request.words.resize(static_cast<size_t>(length));
  std::memcpy(request.descriptors.data(), CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(Descriptors));
  return true;
}

// Forks as glibc does, but the child's parent is this process's parent.
pid_t fork_sibling() {
  int* thread_id = nullptr;  // where glibc keeps it
  if (prctl(PR_GET_TID_ADDRESS, &thread_id) != 0) fail("fork_server: PR_GET_TID_ADDRESS");
  const unsigned long flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
  return static_cast<pid_t>(syscall(SYS_clone, flags, nullptr, nullptr, thread_id, 0));
}

void enter(const Descriptors& descriptors) {
  if (fchdir(descriptors[3]) != 0) fail("fork_server: fchdir");
  for (int stream = 0; stream < 3; ++stream) dup2(descriptors[stream], stream);
  for (const int descriptor : descriptors) {
    if (descriptor > 2) close(descriptor);
  }
}

int run_program(Request& request) {
  unsetenv("FORK_SERVER");
  unsetenv("LD_PRELOAD");
  std::vector<char*> words;
  for (size_t at = 0; at < request.words.size(); at = request.words.find('\0', at) + 1) {
    words.push_back(request.words.data() + at);
  }
  const auto end = std::ranges::find_if(words, [](const char* word) { return *word == '\0'; });
  std::vector<char*> arguments(words.begin(), end);
  for (auto variable = std::next(end); variable < words.end(); ++variable) putenv(*variable);
  arguments.push_back(nullptr);
  return program_main(static_cast<int>(arguments.size()) - 1, arguments.data(), environ);
}

int serve(int count, char** arguments, char** environment) {
  const char* const number = std::getenv("FORK_SERVER");
  if (number == nullptr) return program_main(count, arguments, environment);
  const int socket = std::atoi(number);
  const std::filesystem::directory_iterator threads("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) != 1) {
    std::fputs("fork_server: the program's libraries have started threads\n", stderr);
    return 1;
  }
  static Request request;  // static, as its words become the environment
  while (receive(socket, request)) {
    const pid_t child = fork_sibling();
    if (child < 0) fail("fork_server: clone");
    if (child == 0) {
      enter(request.descriptors);
      const std::string answer = std::to_string(getpid());
      send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
      close(socket);
      return run_program(request);
    }
    for (const int descriptor : request.descriptors) close(descriptor);
  }
  _exit(0);
}

}  // namespace

extern "C" int __libc_start_main(Main main, int count, char** arguments, void (*init)(),
                                 void (*fini)(), void (*loader_fini)(), void* stack_end) {
  program_main = main;
  const auto original =
      reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return original(&serve, count, arguments, init, fini, loader_fini, stack_end);
}
