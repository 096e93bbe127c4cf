#pragma once

#include <string>
#include <thread>
#include <vector>

namespace fsdp {

// Sends `line` to every client that connects. Listens at the first of `ports` that no other program
// of this host uses. Throws std::system_error if all are taken.
class SignPost {
 public:
  SignPost(const std::vector<int>& ports, std::string line);
  ~SignPost();
  SignPost(const SignPost&) = delete;
  SignPost& operator=(const SignPost&) = delete;

 private:
  int listener_;
  std::thread teller_;
};

// Returns the line of the SignPost at that port; empty if no line comes within a second.
std::string read_sign(const std::string& host, int port);

}  // namespace fsdp
