#include "runner/table/terminal_text.h"

#include <catch2/catch.hpp>

using namespace fsdp;

TEST_CASE("a text's width is what a terminal gives it") {
  CHECK(display_width("4xDDP") == 5);
  CHECK(display_width("Größe") == 5);
  CHECK(display_width("模型") == 4);
  CHECK(display_width("e\u0301") == 1);  // a combining accent
  CHECK(display_width("a\xFF"
                      "b") == 3);
}

TEST_CASE("a text that is too long loses its middle, and no character is torn") {
  CHECK(display_cut("4xDDP", 5) == "4xDDP");
  CHECK(display_cut("FSDP size_per_rank=2", 12) == "FSDP s…ank=2");
  CHECK(display_cut("FSDP", 1) == "…");
  CHECK(display_cut("FSDP", 0).empty());
  CHECK(display_cut("模型模型模型", 6) == "模…型");  // 5 columns, as the next character needs 2
  CHECK(display_cut("aaaae\u0301bb", 5) == "aa…bb");
  CHECK(display_cut("two\nlines\x1B[2J", 20) == "two\\nlines\\x1b[2J");
}

TEST_CASE("names that are cut stay told apart where they can be") {
  using Names = std::vector<std::string>;
  const Names sweep{"FSDP optimizer.learning_rate=0.1 data.sequence_length=2048",
                    "FSDP optimizer.learning_rate=0.2 data.sequence_length=2048", "short"};
  CHECK(cut_apart(sweep, 20) == Names{"…optimizer…rate=0.1…", "…optimizer…rate=0.2…", "short"});
  CHECK(cut_apart({"one long name at its end 1", "one long name at its end 2"}, 12) ==
        Names{"one lo…end 1", "one lo…end 2"});
  CHECK(cut_apart({"a long name alone", "b"}, 8) == Names{"a lo…one", "b"});
  CHECK(cut_apart({"the same name twice", "the same name twice"}, 8) ==
        Names{"the …ice", "the …ice"});
  CHECK(cut_apart({}, 8).empty());
}

TEST_CASE("padding counts columns, not bytes") {
  CHECK(display_left("模", 4) == "模  ");
  CHECK(display_right("±1", 4) == "  ±1");
  CHECK(display_right("too long", 4) == "too long");
}
