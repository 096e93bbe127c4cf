#include "runner/table/table.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runner/table/names.h"

// The one table that every command prints.
namespace fsdp {
namespace {

std::string lines_at(const Table& table, size_t width) {
  return joined_texts(lay_out(table, {.width = width}).all(), "\n");
}

TEST_CASE("a table leaves columns out and cuts others until its lines fit") {
  Table table{.columns = {{.heading = "name", .is_left = true, .least = 5},
                          {.heading = "first", .drop_order = 2},
                          {.heading = "second", .drop_order = 1},
                          {.heading = "unknown", .when_known = true},
                          {.heading = "stays"}}};
  table.add({"a long name", "1", "2", "-", "3"});
  table.add({"b", "10", "20", "-", "30"});
  CHECK(lines_at(table, 0) ==
        "name         first  second  stays\n"
        "a long name      1       2      3\n"
        "b               10      20     30");
  CHECK(lines_at(table, 25) ==
        "name         first  stays\n"
        "a long name      1      3\n"
        "b               10     30");
  CHECK(lines_at(table, 15) ==
        "name      stays\n"
        "a lo…ame      3\n"
        "b            30");
  CHECK(lines_at(table, 3) ==
        "name   stays\n"
        "a …me      3\n"
        "b         30");
}

Table two_blocks() {
  Table table{.title = "A title",
              .label = "a_label",
              .columns = {{.name = "point", .heading = "point", .is_left = true},
                          {.name = "memory_bytes", .heading = "memory\nGiB"}},
              .blocks = {Block{.title = "first", .introduction = {"A line."}}},
              .warnings = {{.name = "a_warning", .text = "a remedy"}},
              .notes = {"A note.", "A reason."}};
  table.blocks[0].legend = {"? may be noise"};
  table.blocks[0].answers = {{"Fits", "yes"}, {"Memory", "1 GiB"}, {"Memory", "as planned"}};
  table.add({{"a", "a"}, {int64_t{1} << 30, "1.00"}});
  table.blocks.emplace_back().title = "second";
  table.add({{"b", "b"}, {Value(), "-"}});
  return table;
}

TEST_CASE("a terminal shows all blocks below one heading, with sentences around them") {
  CHECK(table_text(two_blocks(), {}) ==
        "A title\n\n"
        "       memory\n"
        "point     GiB\n"
        "-----  ------\n"
        "\nfirst\nA line.\n\n"
        "a        1.00\n\n"
        "? may be noise\n\n"
        "Fits:   yes\n"
        "Memory: 1 GiB\n"
        "        as planned\n"
        "\nsecond\n"
        "b           -\n\n"
        "Warning: a remedy.\nA note.\nA reason.\n");
  CHECK_THAT(table_text(two_blocks(), {.text_width = 6}), Catch::Contains("\nA\nreason.\n"));
}

TEST_CASE("people read texts in Markdown and LaTeX, programs read values in CSV and JSON") {
  const Table table = two_blocks();
  CHECK_THAT(table_markdown(table),
             Catch::Contains("### A title\n") && Catch::Contains("A line.\n\n| point") &&
                 Catch::Contains("\n\n? may be noise\n\n- **Fits:** yes\n") &&
                 Catch::Contains("| point | memory GiB |\n| --- | ---: |\n"
                                 "| a | 1.00 |\n") &&
                 Catch::Contains("\n**Warning:** a remedy.\n\nA note.\n"));
  CHECK_THAT(table_latex(table), Catch::Contains("\\label{tab:a-label}") &&
                                     Catch::Contains("a & 1.00 \\\\\n") &&
                                     Catch::Contains("\n? may be noise\\par\n") &&
                                     Catch::Contains("\nA reason.\\par\n"));
  CHECK(table_csv(table) == "point,memory_bytes\r\na,1073741824\r\nb,\r\n");
  const auto json = nlohmann::json::parse(table_json(table));
  CHECK(json["rows"][0]["memory_bytes"] == int64_t{1} << 30);
  CHECK(json["rows"][1]["memory_bytes"].is_null());
  CHECK(json["answers"][0]["group"] == "first");
  CHECK(json["notes"] == std::vector<std::string>{"A note.", "A reason."});
}

TEST_CASE("a table is divided into tables that begin with the first column") {
  Table table = two_blocks();
  table.columns.push_back({.name = "ranks", .heading = "ranks"});
  for (Block& block : table.blocks) block.rows[0].cells.emplace_back("4");
  const auto numbers_of = [](const Table& part) { return mapped(part.columns, &Column::name); };
  const auto is_narrow = [](const ColumnNumbers& columns) { return columns.size() < 3; };
  const std::vector<Table> parts = divided(table, is_narrow);
  using Names = std::vector<std::string>;
  REQUIRE(parts.size() == 2);
  CHECK(numbers_of(parts[0]) == Names{"point", "memory_bytes"});
  CHECK(numbers_of(parts[1]) == Names{"point", "ranks"});
  CHECK(parts[1].blocks[1].rows[0].cells[1].text == "4");
  CHECK((parts[0].title == "A title" && parts[0].notes.empty() && parts[0].warnings.empty()));
  CHECK((parts[1].title.empty() && parts[1].notes.size() == 2 && parts[1].warnings.size() == 1));
  CHECK(divided(table, [](auto&) { return true; }).size() == 1);
  CHECK(divided(table, [](auto&) { return false; }).size() == 2);
}

TEST_CASE("groups keep the order of their first items, and lists say how many more there are") {
  const std::vector<std::string> words{"b1", "a1", "b2"};
  const auto groups = grouped(words, [](const std::string& word) { return word[0]; });
  REQUIRE(groups.size() == 2);
  CHECK(groups[0] == std::pair('b', std::vector<std::string>{"b1", "b2"}));
  CHECK(groups[1] == std::pair('a', std::vector<std::string>{"a1"}));
  CHECK(first_names(words, 3) == "b1, a1, b2");
  CHECK(first_names(words, 1) == "b1, 2 more");
  CHECK(joined_texts({"a", "", "b"}, "; ") == "a; b");
  CHECK(distinct(words | std::views::transform(&std::string::size)) == std::vector<size_t>{2});
  CHECK(range_text("1", "1") == "1");
  CHECK(range_text("1", "2") == "1 to 2");
}

}  // namespace
}  // namespace fsdp
