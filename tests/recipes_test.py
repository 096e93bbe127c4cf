"""Links in the documents lead somewhere, and ARCHITECTURE's recipes name every place that an
addition touches.

A recipe has a heading `### A ..., such as ...` with an example of an addition, in one or several
spellings. Below it is a list of places. The first path of a line must name the example. The other
paths of the line, and the lines that begin with "if", may name it. No other file of the programs
names it."""

import fnmatch
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def without_code_blocks(document):
    return re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


# --- links ---


def anchors(document):
    """Returns the anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", without_code_blocks(document), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_leads_to_a_file_and_a_heading(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code_blocks(document)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


# --- the sources ---


PROGRAMS = ("runner/", "trainer/", "base/", "contract/", "formats/", "slurm_templates/")


@functools.cache
def all_files():
    folders = [ROOT / folder for folder in (*PROGRAMS, "tests/", "docs/")]
    paths = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*"))]
    return [str(path.relative_to(ROOT)) for path in paths if path.is_file()]


@functools.cache
def code(name):
    """A file's text without the comments of C++."""
    text = (ROOT / name).read_text(errors="replace")
    return re.sub(r"(?<!:)//.*", "", text) if name.endswith((".h", ".cpp")) else text


@functools.cache
def words_of(name):
    return frozenset(re.findall(r"\w+", code(name)))


def names(file, words):
    return not words_of(file).isdisjoint(words)


def matches(path):
    """Returns the files that a path of a recipe means. The path is a file, a folder with `/`, or a
    pattern."""
    if path.endswith("/"):
        return [name for name in all_files() if name.startswith(path)]
    return fnmatch.filter(all_files(), path)


# --- the recipes ---


def quoted(text):
    return re.findall(r"`([^`]+)`", text)


def is_path(word):
    return "/" in word


class Recipe:
    def __init__(self, heading, text):
        self.title, _, example = heading.partition(", such as ")
        self.example = quoted(example)
        lines = re.findall(r"^- (.+(?:\n  .+)*)", text, flags=re.MULTILINE)
        self.lines = [re.sub(r"\s+", " ", line) for line in lines]

    def places(self):
        return [word for line in self.lines for word in quoted(line) if is_path(word)]

    def required_places(self):
        lines = [line for line in self.lines if not line.startswith("if ")]
        return [next(filter(is_path, quoted(line))) for line in lines]

    def symbols(self):
        return [word for line in self.lines for word in quoted(line) if not is_path(word)]


def recipes():
    text = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Recipes\n")[1].split("\n## ")[0]
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    return [Recipe(*section.split("\n", 1)) for section in sections]


RECIPES = recipes()
WITH_EXAMPLE = [recipe for recipe in RECIPES if recipe.example]


def by_title(recipe):
    return recipe.title


def test_the_recipes_are_there():
    assert [recipe.title for recipe in WITH_EXAMPLE] == [
        "A key", "A figure", "A column that is neither a key nor a figure",
        "A warning", "A launcher or a queue system", "A strategy", "A family of models",
        "A kernel", "A kind of data", "A kind of tokenizer", "A precision"]


@pytest.mark.parametrize("recipe", RECIPES, ids=by_title)
def test_every_place_and_every_name_in_it_is_there(recipe):
    assert recipe.lines
    assert [place for place in recipe.places() if not matches(place)] == []
    files = [file for place in recipe.places() for file in matches(place)]
    source = "".join(code(file) for file in files)
    assert [word for word in recipe.symbols() if word not in source] == []


@pytest.mark.parametrize("recipe", WITH_EXAMPLE, ids=by_title)
def test_every_place_names_the_example(recipe):
    silent = [place for place in recipe.required_places()
              if not any(names(file, recipe.example) for file in matches(place))]
    assert silent == []


@pytest.mark.parametrize("recipe", WITH_EXAMPLE, ids=by_title)
def test_no_place_is_forgotten(recipe):
    listed = {file for place in recipe.places() for file in matches(place)}
    programs = [file for file in all_files() if file.startswith(PROGRAMS)]
    naming = {file for file in programs if names(file, recipe.example)}
    assert sorted(naming - listed) == []


# --- each earlier addition is in all the places that its recipe names ---


def enum_names(file, enum):
    table = re.search(rf"enum_names\({enum}\).*?\{{.*?\}};", code(file), flags=re.DOTALL)
    return re.findall(r'"(\w+)"sv', table[0])


def fields(text):
    """Returns pairs: the name in YAML, JSON and SQL, and the C++ member."""
    return re.findall(r'visit\(\s*"(\w+)",\s*self\.(\w+)', text)


SPEC = "contract/spec"
SPEC_HEADERS = [*matches(f"{SPEC}/*_spec.h"), "contract/families/model_config.h"]
KEYS = fields("".join(code(file) for file in SPEC_HEADERS))
SUMMARY = re.search(r"^struct AttemptSummary .*?^};", code("runner/store/figures.h"),
                    flags=re.MULTILINE | re.DOTALL)[0]
FIGURES = [name for name, _ in fields(SUMMARY)]
WARNINGS = re.findall(r'\{"(\w+)",', code("runner/answers/warnings.cpp"))
COMMANDS = re.findall(r'Command\{"(\w+)", "[^"]+",\s*add_\w+\}', code("runner/commands/commands.h"))
SHARDINGS = enum_names(f"{SPEC}/training_spec.h", "Sharding")
STRATEGIES = enum_names(f"{SPEC}/training_spec.h", "StrategyKind")
PRECISIONS = enum_names(f"{SPEC}/training_spec.h", "PrecisionKind")
FAMILIES = sorted(set(re.findall(r'"(\w+For(?:CausalLM|ConditionalGeneration))"',
                      "".join(code(file) for file in matches("contract/families/*.cpp")))))
OPTIMIZERS = enum_names(f"{SPEC}/training_spec.h", "OptimizerKind")
SCHEDULES = enum_names(f"{SPEC}/training_spec.h", "ScheduleKind")
DATA_KINDS = enum_names(f"{SPEC}/data_spec.h", "DataKind")
REPORT_FORMATS = enum_names("runner/report/report.h", "Format")
EXPORT_FORMATS = enum_names("runner/export/export.h", "ExportFormat")


@pytest.mark.parametrize("members, place", [
    ([name for name, _ in KEYS], "tests/contract/run_spec*_test.cpp"),
    (FIGURES, "runner/store/attempt_figures.cpp"),
    (FIGURES, "tests/golden/report.csv"),
    (FIGURES, "tests/runner/store/attempt_figures_test.cpp"),
    (WARNINGS, "tests/runner/report/warnings_test.cpp"),
    (SHARDINGS, "tests/parity/test_sharding.py"),
    (SHARDINGS, "tests/parity/test_memory.py"),
    (STRATEGIES, "tests/parity/test_against_transformers.py"),
    (FAMILIES, "tests/parity/*.py"),
    (FAMILIES, "docs/file-formats.md"),
    (PRECISIONS, "tests/parity/*.py"),
    (OPTIMIZERS, "tests/parity/test_optimizers.py"),
    (SCHEDULES, "tests/parity/test_optimizers.py"),
    (DATA_KINDS, "tests/hostile/kinds/*.py"),
    (DATA_KINDS, "docs/file-formats.md"),
    (REPORT_FORMATS, "tests/hostile/kinds/arguments.py"),
    (EXPORT_FORMATS, "tests/export/*.py"),
    (COMMANDS, "README.md"),
])
def test_all_of_a_kind_are_named_in(members, place):
    assert members
    files = matches(place)
    assert [name for name in members if not any(names(file, [name]) for file in files)] == []


# More places than the recipe's that name some figures, with the reasons.
USES_OF_FIGURES = {
    "runner/answers/warnings.cpp": "warnings are about them",
    "runner/report/notes_below.cpp": "lines below the table are about them",
    "runner/answers/answer*.cpp": "answers are about them",
    "runner/answers/*_facts.cpp": "facts for answers",
    "runner/series/speeds.*": "whether one row is faster than another",
    "runner/report/columns.*": "the columns that tell most",
    "runner/run/predictions.cpp": "what is predicted of some",
    "runner/series/series.cpp": "ratios of series, and what more ranks bring",
    "runner/page/html/*_figures.js": "figures of the page",
    "runner/report/page.cpp": "speeds of the page's figure of scaling",
    "runner/export/export.cpp": "curves over the steps, which events have under the same names",
    "runner/progress/*": "the live view shows the same of the steps so far",
    "runner/commands/status.cpp": "status shows some",
    "runner/store/rank_reports.cpp": "losses of a resumed run begin with its first step",
    "runner/store/schema.cpp": "the view statuses has some",
    "runner/store/run_status.h": "a row of the view statuses",
    "runner/store/comparison.h": "the same figures, planned",
    "runner/commands/report.cpp": "the uses of memory at a peak; examples in --help",
    "contract/devices/*": "what others measured of a kind of GPU",
    "contract/record/memory_peak.h": "a peak of what is allocated, as an event",
    "contract/plan/*": "the same figures, planned",
    "trainer/plan/*": "the same figures, planned",
    "trainer/memory/memory_label.h": "makes a peak an event",
    "runner/plan/*": "shows what is planned",
}


def test_figures_are_named_where_they_are_used_and_nowhere_else():
    figures = [name for name in FIGURES if name != "steps"]  # `steps` is also an ordinary word
    recipe = next(recipe for recipe in RECIPES if recipe.title == "A figure")
    allowed = {file for place in [*recipe.places(), *USES_OF_FIGURES] for file in matches(place)}
    programs = [file for file in all_files() if file.startswith(PROGRAMS)]
    assert [file for file in programs if file not in allowed and names(file, figures)] == []
    idle = [place for place in USES_OF_FIGURES
            if not any(names(file, figures) for file in matches(place))]
    assert idle == []


def test_every_key_has_an_effect():
    programs = [file for file in all_files() if file.startswith(PROGRAMS)]
    users = [file for file in programs if file not in SPEC_HEADERS]
    unused = [name for name, member in KEYS if not any(names(file, [member]) for file in users)]
    assert unused == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples(command):
    commands = "".join(code(file) for file in matches("runner/commands/*.cpp"))
    function = re.search(rf"^CommandFunction add_{command}_command\(.*?^}}", commands, flags=re.MULTILINE | re.DOTALL)
    assert "Examples:" in function[0]
