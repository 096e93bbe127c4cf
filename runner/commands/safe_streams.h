#pragma once

#include <sstream>
#include <string_view>

namespace fsdp {

// Makes std::cout and std::cerr safe for terminals while the object exists, whoever writes to them.
// Text passes through visible_lines; only this program's own colours stay as they are.
class SafeStreams {
 public:
  SafeStreams();
  ~SafeStreams();
  SafeStreams(const SafeStreams&) = delete;
  SafeStreams& operator=(const SafeStreams&) = delete;

  // Writes to std::cout. A file or a pipe gets the bytes unchanged, as it may want every byte.
  static void write_program_output(std::string_view bytes);

 private:
  // Keeps written text until it is flushed.
  class Buffer : public std::stringbuf {
   public:
    explicit Buffer(std::streambuf* shown) : std::stringbuf(std::ios::out), shown_(shown) {}
    // Shows everything, even an incomplete last character.
    bool finish();
    bool write_as_it_is(std::string_view bytes);
    std::streambuf* shown() const { return shown_; }

   protected:
    int sync() override;

   private:
    // Shows all but the last `kept` bytes.
    bool show(size_t kept);

    std::streambuf* shown_;
  };

  Buffer output_;
  Buffer errors_;
};

}  // namespace fsdp
