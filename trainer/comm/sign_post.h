#pragma once

#include <string>
#include <thread>
#include <vector>

namespace fsdp {

// Sends `line` to whoever connects, as long as it exists. It listens at the first of `ports` that
// no other program of this host uses. Throws std::system_error if all are taken.
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

// Returns the line that is sent there; empty if none comes within a second.
std::string read_sign(const std::string& host, int port);

}  // namespace fsdp
