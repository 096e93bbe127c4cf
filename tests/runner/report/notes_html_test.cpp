#include "runner/page/notes_html.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "base/text/config_error.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

const std::string kPng = "\x89PNG\r\n\x1a\nabc";
const std::string kSvg = "<?xml version='1.0'?>\n<svg onload='alert(1)'/>";

// The HTML of notes in the folder's file notes.md.
std::string html_of(const TemporaryFolder& folder, const std::string& markdown) {
  return notes_html(markdown, folder / "notes.md");
}

std::string refusal_of(const TemporaryFolder& folder, const std::string& markdown) {
  try {
    return "made " + html_of(folder, markdown);
  } catch (const ConfigError& error) {
    return folder.without_folder(error.what());
  }
}

TEST_CASE("notes are Markdown, and can neither run nor load anything") {
  const TemporaryFolder folder;
  CHECK(html_of(folder,
                "# What I saw\n\n*FSDP* is **slower**.\n\n"
                "![curve](https://example.org/a.png) <script nonce=\"report\">alert(1)</script>\n\n"
                "<img src=x onerror=alert(1)>\n") ==
        "<h3>What I saw</h3>\n<p><em>FSDP</em> is <strong>slower</strong>.</p>\n"
        "<p><a href=\"https://example.org/a.png\">curve</a> "
        "<!-- raw HTML omitted -->alert(1)<!-- raw HTML omitted --></p>\n"
        "<!-- raw HTML omitted -->\n");
}

TEST_CASE("a table in notes is a table, in which nothing runs either") {
  const TemporaryFolder folder;
  const std::string html = html_of(folder,
                                   "| run | loss |\n|---|--:|\n"
                                   "| `a` <script>x</script> | [2.5](javascript:x) |\n");
  CHECK_THAT(html, Catch::Contains("<table>") && Catch::Contains("<th align=\"right\">loss</th>") &&
                       Catch::Contains("<td><code>a</code> ") &&
                       Catch::Contains("<td align=\"right\">2.5</td>"));
  CHECK_THAT(html, !Catch::Contains("<script") && !Catch::Contains("javascript"));
}

TEST_CASE("links of notes lead to http and https alone") {
  const TemporaryFolder folder;
  CHECK(html_of(folder, "[a](HTTPS://example.org) <http://example.org>\n") ==
        "<p><a href=\"HTTPS://example.org\">a</a> "
        "<a href=\"http://example.org\">http://example.org</a></p>\n");
  for (const char* url : {"javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x",
                          "file:///etc/passwd", "//host/share", "search-ms:query", "other.html"}) {
    CHECK(html_of(folder, std::string("[*a* b](") + url + ")\n") == "<p><em>a</em> b</p>\n");
  }
}

TEST_CASE("images of notes are embedded, whatever their files are called") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "figures");
  folder.write("figures/my plot.dat", kPng);
  folder.write("a.svg", kSvg);
  folder.write("b", "\xff\xd8\xff");
  folder.write("c", "GIF89a");
  folder.write("d", "RIFF1234WEBP");
  CHECK(
      html_of(folder, "![a \"b\" *c*](figures/my%20plot.dat)\n") ==
      "<p><img src=\"data:image/png;base64,iVBORw0KGgphYmM=\" alt=\"a &quot;b&quot; c\" /></p>\n");
  CHECK_THAT(html_of(folder, "![](<figures/my plot.dat>)"), Catch::Contains("data:image/png;"));
  CHECK_THAT(
      html_of(folder, "![](a.svg) ![](b) ![](c) ![](d)\n"),
      Catch::Matches("<p><img src=\"data:image/svg\\+xml;base64,PD94[^<>\"]+\" alt=\"\" /> "
                     "<img src=\"data:image/jpeg;base64,/9j/\" alt=\"\" /> "
                     "<img src=\"data:image/gif;base64,R0lGODlh\" alt=\"\" /> "
                     "<img src=\"data:image/webp;base64,UklGRjEyMzRXRUJQ\" alt=\"\" /></p>\n"));
  CHECK_THAT(html_of(folder, "| a |\n|---|\n| [![x](c)](https://example.org) |\n"),
             Catch::Contains("<a href=\"https://example.org\"><img src=\"data:image/gif;"));
}

TEST_CASE("an image that the notes hold themselves is kept") {
  const TemporaryFolder folder;
  const std::string image = "data:image/png;base64,iVBORw0KGgphYmM=";
  CHECK(html_of(folder, "![a](" + image + ")\n") ==
        "<p><img src=\"" + image + "\" alt=\"a\" /></p>\n");
  CHECK_THAT(refusal_of(folder, "![a](data:text/html,x)"), !Catch::StartsWith("made"));
}

TEST_CASE("images in the text of others, and numbers like ours, change nothing") {
  const TemporaryFolder folder;
  folder.write("a.png", kPng);
  folder.write("b.gif", "GIF89a");
  CHECK(html_of(folder, "![x ![y](b.gif) z](a.png) `<img src=\"image:0`\n") ==
        "<p><img src=\"data:image/png;base64,iVBORw0KGgphYmM=\" alt=\"x y z\" /> "
        "<code>&lt;img src=&quot;image:0</code></p>\n");
  CHECK_THAT(refusal_of(folder, "![](image:0)"), Catch::Contains("image:0: cannot be read"));
}

TEST_CASE("notes name no image outside their folder") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "inner");
  folder.write("a.png", kPng);
  std::filesystem::create_symlink("../a.png", folder / "inner/link.png");
  std::filesystem::create_symlink("..", folder / "inner/up");
  for (const std::string& name :
       {std::string("../a.png"), std::string("link.png"), std::string("up/a.png"),
        std::string("%2e%2e/a.png"), (folder / "a.png").string(), std::string("/dev/zero"),
        std::string("../../../../../../etc/passwd")}) {
    CAPTURE(name);
    try {
      notes_html("![](" + name + ")", folder / "inner/notes.md");
      FAIL("embedded");
    } catch (const ConfigError& error) {
      CHECK(error.place() == folder / "inner/notes.md");
      CHECK(error.key() == name);
      CHECK(error.problem() ==
            "is an image outside the notes' folder; allowed: images in it or below it");
    }
  }
  CHECK_THAT(notes_html("![](inner/link.png)", folder / "notes.md"), Catch::Contains("<img src"));
}

TEST_CASE("what is no image is refused by name") {
  const TemporaryFolder folder;
  folder.write("secret.png", "root:x:0:0");
  folder.write("empty.png", "");
  REQUIRE(mkfifo((folder / "pipe.png").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop.png", folder / "loop.png");
  for (const char* name : {"secret.png", "empty.png"}) {
    CHECK(refusal_of(folder, std::string("![](") + name + ")") ==
          std::string("notes.md: '") + name +
              "': is no image that a page can hold; allowed: PNG, JPEG, GIF, WebP, SVG");
  }
  CHECK(refusal_of(folder, "![](pipe.png)") ==
        "pipe.png: cannot be read: it is not a regular file");
  CHECK_THAT(refusal_of(folder, "![](loop.png)"),
             Catch::Contains("loop.png: cannot be read: Too many levels of symbolic links"));
  CHECK_THAT(refusal_of(folder, "![](secrets.png)"), Catch::Contains("did you mean"));
  CHECK_THAT(refusal_of(folder, "![]()"), Catch::Contains("Is a directory"));
}

TEST_CASE("images of notes have a limit together, however often each is named") {
  const TemporaryFolder folder;
  folder.write("large.png", kPng);
  std::filesystem::resize_file(folder / "large.png", kMostImageBytes + 1);
  const std::string refusal =
      "notes.md: 'large.png': makes the notes' images too large; allowed: 32 MiB together";
  CHECK(refusal_of(folder, "![](large.png)").substr(0, 200) == refusal);
  std::filesystem::resize_file(folder / "large.png", kMostImageBytes / 2);
  CHECK(refusal_of(folder, "![](large.png) ![](large.png)").starts_with("made"));
  const std::string of_three = refusal_of(folder, "![](large.png) ![](large.png) ![](large.png)");
  CHECK(of_three.substr(0, 200) == refusal);
}

TEST_CASE("a short text asks for no table of a billion cells") {
  const TemporaryFolder folder;
  const auto repeated = [](const std::string& text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    const std::string head = repeated("|a", 2000) + end + repeated("|-", 2000) + end;
    CHECK_THAT(refusal_of(folder, head + repeated("|a" + end, 2000)).substr(0, 200),
               Catch::StartsWith("notes.md: has ") && Catch::Contains("; allowed: 1000000"));
    CHECK(refusal_of(folder, head + "|a" + end).starts_with("made <table>"));
  }
}

}  // namespace
}  // namespace fsdp
