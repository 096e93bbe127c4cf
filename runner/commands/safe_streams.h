#pragma once

#include <streambuf>
#include <string>
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
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(std::streambuf* shown) : shown_(shown) {}
    // Also a character of which the rest never came.
    bool finish();
    bool write_as_it_is(std::string_view bytes);
    std::streambuf* shown() const { return shown_; }

   protected:
    int overflow(int character) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    bool show(size_t length);

    std::streambuf* shown_;
    std::string pending_;
  };

  Buffer output_;
  Buffer errors_;
};

}  // namespace fsdp
