#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

// Output to a terminal, and input from its user.
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

// True if stdout is a terminal and its user wants colours.
bool stdout_has_colour();
// Returns the terminal's width, or COLUMNS (which watch sets); 0: any width.
size_t stdout_columns();

// Shows the place of an error to the user: a line of the file with a caret below the column.
//
//     7 |   kind: fdsp
//       |         ^
//
// `place` is file:line:column as in ConfigError; columns are counted in bytes. Returns "" if
// `place` has another form, or the line cannot be read. A long line is cut around the column. Tabs
// become spaces. Control characters and invalid UTF-8 are shown as in visible_line.
std::string source_excerpt(std::string_view place);

// Returns "2026-11-21 16:02:11" in the user's time zone.
std::string local_time(int64_t unix_ms);

// Returns a past moment in milliseconds since 1970. `text` is a day or minute in local time
// ("2026-11-21", "2026-11-21T14:30"), or a time before `now_unix_ms` ("90s", "30m", "2h", "3d",
// "1w"). Throws ConfigError (place: `option`) for any other text.
int64_t moment_unix_ms(const std::string& text, int64_t now_unix_ms, const std::string& option);

}  // namespace fsdp
