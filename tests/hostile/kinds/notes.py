"""Notes for a page, with tables, images and paths that others wrote. The page must not run or load
anything, and must not contain files from outside the notes' folder."""

import base64
import html.parser
import os
import pathlib

from tests.hostile import odd
from tests.hostile.case import Case
from tests.hostile.kinds import databases

PNG = b"\x89PNG\r\n\x1a\n"
SECRET = PNG + b"kept outside the folder"
HARMLESS_TAGS = {"h3", "h4", "h5", "h6", "p", "em", "strong", "code", "pre", "a", "img", "ul", "ol", "li", "blockquote",
                 "hr", "br", "table", "thead", "tbody", "tr", "th", "td"}
BEGINNINGS = {"href": ("http://", "https://"), "src": ("data:image/",), "alt": ("",), "title": ("",), "start": ("",),
              "class": ("language-",), "align": ("left", "right", "center")}
SCRIPTS = ("<script nonce=\"report\">alert(1)</script>", "<img src=x onerror=alert(1)>", "<iframe srcdoc='x'>", "<!--",
           "</section></main><script>alert(1)", "<style>@import 'x'</style>", "<svg onload=alert(1)>", "<a href='x'>")
URLS = ("javascript:alert(1)", "JAVASCRIPT&colon;alert(1)", " javascript:x", "java\tscript:x", "vbscript:x", "file:///etc/passwd",
        "data:text/html,<script>alert(1)</script>", "data:image/svg+xml;base64,PHN2Zz4=", "//host/share", "\\\\host\\share",
        "https://example.org/\" onclick=\"alert(1)", "http://example.org", "mailto:a@example.org", "#table", "image:0", "")
DEEP = ("[", "![", "![a](", "[a](", ">", "* ", "**a ", "`", "<", "<a ", "&", "|", "|\n|-\n", "\\", "- a\n  ")


class Reader(html.parser.HTMLParser):
    """Finds harmful tags and attributes in a page's notes."""

    def __init__(self):
        super().__init__()
        self.problems: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in HARMLESS_TAGS:
            self.problems.append(f"the tag {tag}")
        for name, value in attrs:
            if not (value or "").lower().startswith(BEGINNINGS.get(name, ("\0",))):
                self.problems.append(f"{tag} {name}={value!r}"[:200])


def attack(case: Case) -> None:
    results = case.take("sweep") / "results"
    make_files(case)
    parts = [case.random.choice([image, image, link, table, script, deep, noise])(case)
             for _ in range(case.random.choice([1, 1, 3, 8]))]
    case.write("notes/notes.md", case.random.choice(["\n\n", "\n", " | ", "\r"]).join(parts))
    ended = databases.read(case, results, "report", "--format", "html", "--notes", "notes/notes.md")
    if not ended.ok:
        return
    page = ended.output.decode()
    if page.count("<script") != 3:
        case.fail(f"a page with {page.count('<script')} scripts")
    if base64.b64encode(SECRET).decode() in page:
        case.fail("an image from outside the notes' folder is on the page")
    if '<section class="reader">' not in page:  # the notes have no text
        return
    begin, end = page.index('<section class="reader">'), page.index('<section id="comparison"')
    notes = page[begin:end].removeprefix('<section class="reader">').rstrip().removesuffix("</section>")
    reader = Reader()
    reader.feed(notes)
    for problem in reader.problems[:3]:
        case.fail(f"the notes hold {problem}")


def make_files(case: Case) -> None:
    case.write("secret.png", SECRET)
    case.write("notes/a.png", PNG + b"a")
    case.write("notes/a b.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>")
    case.write("notes/cut.png", PNG[:5])
    folder = case.work / "notes"
    os.mkfifo(folder / "pipe.png")
    os.truncate(case.write("notes/large.png", PNG), case.random.choice([20 << 20, 33 << 20]))
    for name, target in (("link.png", "../secret.png"), ("up", ".."), ("zero.png", "/dev/zero"), ("loop.png", "loop.png"),
                         ("gone.png", "gone")):
        pathlib.Path(folder / name).symlink_to(target)


def image(case: Case) -> str:
    path = case.random.choice([
        "a.png", "a%20b.svg", "<a b.svg>", "cut.png", "pipe.png", "large.png", "link.png", "up/secret.png", "zero.png",
        "loop.png", "gone.png", "../secret.png", "%2e%2e/secret.png", "./../notes/../secret.png", str(case.work / "secret.png"),
        "/dev/zero", "/proc/self/environ", "../../../../etc/passwd", "a.png%00.txt", "a.png/..", ".", "%", "a" * 5000,
        "../" * 5000 + "etc/passwd", *URLS
    ])
    case.note(f"image {path[:60]!a}")
    return f"![{odd.text(case.random)}]({path})" * case.random.choice([1, 1, 1, 3, 1000])


def link(case: Case) -> str:
    url = case.random.choice(URLS)
    case.note(f"link {url!a}")
    return case.random.choice(["[{0}]({1})", "<{1}>", "[{0}]\n\n[{0}]: {1}\n", "[![{0}](a.png)]({1})"]).format(
        odd.text(case.random), url)


def table(case: Case) -> str:
    columns, rows = (case.random.choice([0, 1, 3, 100, 3000]) for _ in range(2))
    case.note(f"a table of {columns} columns and {rows} rows")
    cell = case.random.choice([odd.text, lambda _: "a", lambda _: "![](a.png)", lambda _: "\\|"])(case.random)
    rule = case.random.choice(["|-", "|:-:", "|--:", "|"])
    return "\n".join(["|a" * columns, rule * columns, *["|" + cell] * rows])


def script(case: Case) -> str:
    text = case.random.choice(SCRIPTS)
    case.note(f"markup {text!a}")
    return text


def deep(case: Case) -> str:
    text, count = case.random.choice(DEEP), case.random.choice([100, 2_000])  # cmark-gfm is quadratic for some
    case.note(f"{count} times {text!a}")
    return text * count


def noise(case: Case) -> str:
    text = b"# a\n\n| a | b |\n|---|--:|\n| ![x](a.png) | [y](https://example.org) |\n"
    return case.damaged(text, "notes").decode("utf-8", "surrogateescape")
