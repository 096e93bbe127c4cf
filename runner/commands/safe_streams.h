#pragma once

#include <sstream>
#include <string_view>

namespace fsdp {

// While the object is there, nothing that a terminal would obey comes out of std::cout and
// std::cerr, whoever writes it: visible_lines is what is shown, but for this program's own colours.
class SafeStreams {
 public:
  SafeStreams();
  ~SafeStreams();
  SafeStreams(const SafeStreams&) = delete;
  SafeStreams& operator=(const SafeStreams&) = delete;

  // Onto std::cout: as it is where that is a file or a pipe, which may want every byte.
  static void write_program_output(std::string_view bytes);

 private:
  // Keeps what is written until it is flushed.
  class Buffer : public std::stringbuf {
   public:
    explicit Buffer(std::streambuf* shown) : std::stringbuf(std::ios::out), shown_(shown) {}
    // Also a character of which the rest never came.
    bool finish();
    bool write_as_it_is(std::string_view bytes);
    std::streambuf* shown() const { return shown_; }

   protected:
    int sync() override;

   private:
    // All but the last bytes, so many.
    bool show(size_t kept);

    std::streambuf* shown_;
  };

  Buffer output_;
  Buffer errors_;
};

}  // namespace fsdp
