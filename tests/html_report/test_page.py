import subprocess
from xml.etree import ElementTree

import pytest
from results import FILE_TEXT, HOSTILE
from window import READABLE, layout_problems, open_everything, texts, wait_until

# The contrast of two colours.
CONTRAST = """(one, other) => {
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((channel) => channel / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}"""
# The contrast of a visible text to its background, and the text.
TEXT_CONTRAST = """(element, text) => {
  const behind = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    const [, , , alpha = 1] = colour.match(/[\\d.]+/g).map(Number);
    return alpha === 1 ? colour : behind(element.parentElement);
  };
  return !element.checkVisibility() || element.closest("svg") ? null :
    [(CONTRAST)(getComputedStyle(element).color, behind(element)), text];
}""".replace("CONTRAST", CONTRAST)
FIGURE_COLOURS = """() => {
  const probe = document.body.appendChild(document.createElement("i"));
  const resolved = (colour) => { probe.style.color = colour; return getComputedStyle(probe).color; };
  const contrast = (name) => (CONTRAST)(resolved(colourOf(name)), resolved(colourOf("background")));
  return {
    text: ["text", "muted"].map(contrast),
    drawn: [...Array(SERIES_COLOURS).keys()].map((index) => `series-${index}`)
      .concat("allocated", "communication", "limit").map(contrast),
    muted: resolved(colourOf("muted")),
    axis: getComputedStyle(document.querySelector(".axis text")).fill,
  };
}""".replace("CONTRAST", CONTRAST)


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_charts_stand_out(open_report, scheme):
    page = open_report(color_scheme=scheme)
    open_everything(page)
    contrasts = texts(page, TEXT_CONTRAST)
    assert len(contrasts) > 500
    assert [text for text in contrasts if text[0] < 4.5] == []
    colours = page.evaluate(FIGURE_COLOURS)
    assert colours["axis"] == colours["muted"]
    assert min(colours["text"]) >= 4.5 and min(colours["drawn"]) >= 3, colours


def test_figures_turn_dark_with_the_page_and_are_light_on_paper(page):
    light_page, light_axis = background(page), page.evaluate(FIGURE_COLOURS)["axis"]
    page.emulate_media(color_scheme="dark")
    assert background(page) != light_page
    assert page.evaluate(FIGURE_COLOURS)["axis"] != light_axis
    page.emulate_media(color_scheme="dark", media="print")
    assert background(page) == light_page
    assert page.evaluate(FIGURE_COLOURS)["axis"] == light_axis


@pytest.mark.parametrize("name", ["page", "large_page", "many_ranks_page", "failures_page", "notes_page"])
def test_at_every_width_nothing_is_cut_and_no_text_lies_on_another(open_report, results, name):
    page = open_report(getattr(results, name))
    open_everything(page)
    for width in (1440, 1280, 800, 390, 320):
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(page, """report.figures.every(({box}) =>
            box.firstChild.getAttribute("width") === String(Math.floor(box.clientWidth)))""")
        assert (width, layout_problems(page)) == (width, [])


def test_at_phone_width_tables_scroll_in_boxes_of_their_own(open_report):
    page = open_report(width=320, height=700)
    box = page.locator(".scroll").first
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")


@pytest.mark.parametrize("name", ["page", "failures_page", "notes_page"])
def test_on_a_phone_point_memory_speed_and_loss_are_seen_without_scrolling(open_report, results, name):
    page = open_report(getattr(results, name), width=390, height=844)
    edges = page.evaluate("""() => {
      const right = (element) => Math.ceil(element.getBoundingClientRect().right);
      const table = document.getElementById("table");
      const inside = right(table.closest(".scroll"));
      return report.data.columns.flatMap(({name}, index) => [...table.rows].map((row) => row.cells[index])
        .filter((cell) => cell.checkVisibility()).map((cell) => [name, right(cell) <= inside]));
    }""")
    for name in ("point", "memory_allocated_bytes_max", "tokens_per_second", "loss_last"):
        seen = [is_inside for column, is_inside in edges if column == name]
        assert len(seen) >= 3 and all(seen), name


def test_a_table_says_that_it_scrolls_if_it_does(open_report, results):
    page = open_report(results.notes_page, width=390, height=844)
    open_everything(page)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        wait_until(page, """[...document.querySelectorAll(".scroll")].every((box) =>
            box.querySelector(".scrolls").checkVisibility() === box.scrollWidth > box.clientWidth)""")
        hints = page.locator(".scrolls").evaluate_all("(all) => all.map((hint) => hint.checkVisibility())")
        assert (width, any(hints), all(hints)) == (width, True, False)
    page.emulate_media(media="print")
    assert page.locator(".scrolls:visible").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_the_columns_explained_are_those_shown(open_report, width):
    page = open_report(width=width)
    open_everything(page)

    def seen(selector):
        return page.locator(selector).evaluate_all("""(all) => all.filter((one) => one.checkVisibility())
            .map((one) => one.textContent.replaceAll("\\n", " "))""")
    explained = "#comparison details dt"
    few = seen("#table thead th")
    assert seen(explained) == few
    page.locator(".switch input").check()
    assert len(seen("#table thead th")) > len(few)
    assert seen(explained) == seen("#table thead th")
    page.emulate_media(media="print")
    assert seen(explained) == seen("#table thead th")


def test_words_between_backticks_are_code(open_report, results):
    page = open_report(results.page)
    open_everything(page)
    made = page.evaluate("sentence('see `a b`').map((part) => part.outerHTML ?? part).join('')")
    assert made == "see <code>a b</code>"
    outside_code = texts(page, """(element, text) => element.closest("pre, script") ? null : text""")
    titles = page.evaluate("""[...document.querySelectorAll("[title]")].map((element) => element.title)""")
    assert [text for text in outside_code + titles if "`" in text] == []


def test_notes_are_paragraphs_of_text(open_report, results):
    notes = open_report(results.notes_page).locator("main > .reader:first-child")
    assert notes.evaluate("(notes) => notes.innerHTML.match(/<\\w+/g)") == ["<p", "<p", "<p"]
    assert notes.locator("p").all_text_contents() == [
        "FSDP is *slower*\nthan DDP.", f"<script>alert(1)</script> {HOSTILE}", "wide_" * 20]


# A4 with margins of 1 cm, at CSS's 96 pixels per inch.
A4_WIDTH = 718


def test_on_paper_nothing_is_cut_and_everything_can_be_read(open_report):
    page = open_report(width=A4_WIDTH, height=1047)
    page.locator(".switch input").check()
    open_everything(page)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert layout_problems(page) == []
    cut = page.evaluate("""(width) => [...document.querySelectorAll("body *")]
        .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > width + 1
          && !element.closest(".visually-hidden"))
        .map((element) => element.outerHTML.slice(0, 90))""", A4_WIDTH)
    assert cut == []
    assert texts(page, """(element, text, least) => element.checkVisibility() &&
        parseFloat(getComputedStyle(element).fontSize) < least ? text : null""", READABLE) == []


def words_of(pdf):
    """Yields each page's size and its words with their boxes, in points."""
    listing = subprocess.run(["pdftotext", "-bbox-layout", pdf, "-"], check=True, capture_output=True).stdout
    for sheet in ElementTree.fromstring(listing).findall(".//{*}page"):
        size = float(sheet.get("width")), float(sheet.get("height"))
        yield size, [(word.text, *(float(word.get(side)) for side in ("xMin", "yMin", "xMax", "yMax")))
                     for word in sheet.findall(".//{*}word")]


@pytest.mark.parametrize("name", ["page", "many_ranks_page", "failures_page"])
def test_printed_to_pdf_every_word_is_on_the_sheet_and_at_least_9_points(open_report, results, tmp_path, name):
    page = open_report(getattr(results, name), width=1280)
    file = tmp_path / "page.pdf"
    page.pdf(path=file, format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "1cm"))
    sheets = list(words_of(file))
    assert 1 <= len(sheets) <= 30
    margin = 28
    for (width, height), words in sheets:
        for word, left, top, right, bottom in words:
            assert margin - 1 <= left and right <= width - margin + 1, word
            assert 0 <= top and bottom <= height, word
            # A line's box is 1.16 times as high as its letters.
            assert bottom - top >= 9 * 1.15, word
    text = " ".join(word for _, words in sheets for word, *_ in words)
    figures = page.evaluate("report.figures.length")
    assert all(f"Figure {number}." in text for number in range(1, figures + 1))


def test_the_keyboard_reaches_everything_and_the_focus_is_seen(page):
    reached = []
    for _ in range(400):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("""() => {
          const {tagName, className} = document.activeElement;
          const {outlineStyle, outlineWidth} = getComputedStyle(document.activeElement);
          return [tagName, className, outlineStyle !== "none" && parseFloat(outlineWidth) >= 2];
        }"""))
        if reached[-1][0] == "BODY":
            break
    reached.pop()
    assert all(seen for _, _, seen in reached)
    tags = [tag for tag, _, _ in reached]
    headings = page.evaluate("report.data.columns.filter((column) => column.shown_at_first).length")
    assert reached[0][:2] == ["A", "skip"]
    assert tags[1] == "INPUT"
    assert reached[2][:2] == ["DIV", "scroll"]
    assert tags[3:4 + headings] == ["BUTTON"] * headings + ["SUMMARY"]
    assert tags.count("SUMMARY") == page.locator("summary").count()


def test_each_run_says_where_its_figures_come_from(page, results):
    run = results.rows("select * from comparison where point = '4xDDP'")[0]
    details = page.locator(".run", has_text="4xDDP (finished)")
    details.locator("summary").press("Enter")
    specification = (results.folder / "results" / run["folder"] / "run.yaml").read_text()
    specification = specification.replace("device: cpu", "device: cuda")  # as results.py does
    assert details.locator("pre").text_content() == specification
    shown = details.locator("dl").first.evaluate("""(list) => Object.fromEntries(
        [...list.querySelectorAll("dt")].map((dt) => [dt.textContent,
                                                      dt.nextElementSibling.textContent]))""")
    assert shown["git_commit"] == "0123abcd"
    assert shown["git_dirty"] == "true"
    assert shown["git_untracked"] == "true" and shown["experiment_text_digest"] == "abc"
    assert shown["trainer_digest"] == "fedc9876"
    assert shown["$OMP_NUM_THREADS"] == "10"
    assert shown["$NCCL_DEBUG"] == HOSTILE
    assert f"results/{run['folder']}/attempt-1/" in details.text_content()
    ranks = details.locator("table").nth(1).locator("tbody tr")
    assert ranks.all_text_contents()[3].startswith("3stubcuda:3Fake GPU")
    experiment = page.locator(".run", has_text="The experiment's file as it was")
    experiment.locator("summary").click()
    assert experiment.locator("pre").text_content() == FILE_TEXT


def test_it_says_how_to_run_it_again(page):
    section = page.locator("#reproduce")
    assert section.locator("code").text_content() == "./fsdp-run experiment.yaml"
    text = section.text_content()
    assert "0123abcd with changes that are not committed; experiment file untracked, digest abc" in text
    assert "fsdp-run 0.1.0" in text
    with page.expect_download() as download:
        section.get_by_role("button", name="Save experiment.yaml").click()
    assert download.value.suggested_filename == "experiment.yaml"
    assert download.value.path().read_text() == FILE_TEXT


def test_it_says_when_and_where_it_was_measured(page, results):
    text = page.locator("#measured").text_content()
    year = results.rows("select strftime('%Y-%m-%d', min(started_unix_ms) / 1000, 'unixepoch') d "
                        "from attempts")[0]["d"]
    assert text.startswith("11 runs, started ")
    assert year in text and "stub" in text and "Fake GPU" in text


def test_figures_that_nothing_measures_leave_the_page_whole(open_report, results):
    page = open_report(results.absurd_page)
    assert page.locator("#table tbody tr").count() == 11
    assert page.locator("#measured").text_content().startswith("11 runs, started 1970-01-01")
    assert {"throughput_memory", "memory", "step_time", "training_loss"} <= {
        figure["id"] for figure in page.evaluate("report.figures.map(({id}) => ({id}))")}
    open_everything(page)
    text = page.locator("body").inner_text()
    assert "cannot be shown" not in text
    assert "9223372036854776000 ms after 1970" in text  # the attempts' table shows it unchanged
    assert "NaN" not in page.locator("#figures").inner_html()


def test_a_part_that_fails_takes_no_other_one_with_it(open_report, results, tmp_path):
    broken = tmp_path / "broken.html"
    page_text = results.page.read_text()
    assert page_text.count("function memoryFigure(runs) {") == 1
    broken.write_text(page_text.replace("function memoryFigure(runs) {",
                                        'function memoryFigure(runs) { throw Error("odd");'))
    page = open_report(broken)
    assert page.locator("#table tbody tr").count() == 11
    assert page.get_by_text("Memory of each rank cannot be shown: odd").is_visible()
    assert page.locator("#figures figure").count() > 3
    assert page.locator(".run").count() > 0
