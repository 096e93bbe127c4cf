"""Links in the documents lead somewhere. ARCHITECTURE names the headers where an addition begins, and
their comments `To add ...` name files that exist. All additions of a kind are tested and
documented."""

import fnmatch
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*.ipynb")])


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


PROGRAMS = ("runner/", "trainer/", "base/", "contract/", "formats/")


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
    return fnmatch.filter(all_files(), path)


# --- where to add what ---


def recipes(file):
    """Returns the comments "To add ...", each to its end."""
    return re.findall(r"To add a.*(?:\n// .+)*", (ROOT / file).read_text())


def named_headers():
    section = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Where to add what\n")[1]
    return re.findall(r"`([\w/]+\.h)`", section)


@pytest.mark.parametrize("header", named_headers())
def test_each_header_of_the_table_says_what_to_add(header):
    assert recipes(header)


SOURCES = [file for file in all_files() if file.startswith(PROGRAMS) and file.endswith((".h", ".js"))]
RECIPES = [(file, recipe) for file in SOURCES for recipe in recipes(file)]


@pytest.mark.parametrize("file, recipe", RECIPES, ids=[file for file, _ in RECIPES])
def test_every_place_that_a_header_names_is_there(file, recipe):
    places = [place.rstrip(".") for place in re.findall(r"[\w.*-]+/[\w./*-]+", recipe)]
    assert [place for place in places if not any(ROOT.glob(place))] == []


# --- all additions of a kind are in the same places ---


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
    (FIGURES, "runner/store/attempt_reports.cpp"),
    (FIGURES, "tests/golden/report.csv"),
    (FIGURES, "tests/runner/store/attempt_reports_test.cpp"),
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
