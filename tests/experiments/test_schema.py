"""The JSON Schema of experiments accepts what the loader accepts, and refuses the mistakes of single keys. It need not
refuse what only several keys, other files or the host make wrong."""

import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "experiments/schema.json"
SHIPPED = sorted(ROOT.glob("experiments/*.yaml"))
CORPUS = ROOT / "tests/runner/experiment/corpus"


@pytest.mark.quick
def test_the_file_in_experiments_is_what_schema_prints(call):
    printed = call("schema", "--json").stdout
    assert SCHEMA.read_text() == printed, "call: ./fsdp-run schema --json > experiments/schema.json"


@pytest.mark.quick
@pytest.mark.parametrize("experiment", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_experiment_names_the_schema_for_editors(experiment):
    assert experiment.read_text().startswith("# yaml-language-server: $schema=schema.json\n")


@pytest.mark.quick
def test_the_schema_has_the_sentence_of_every_key(call):
    sentences = re.findall(r"^  \S+: .*\n      (.*)$", call("schema").stdout, re.MULTILINE)
    words = SCHEMA.read_text()
    assert len(sentences) > 200 and [line for line in sentences if json.dumps(line)[:-1] not in words] == []


@pytest.mark.quick
def test_one_key_as_json_is_refused(call):
    assert "KEY excludes --json" in call("schema", "train", "--json", fails_with=2).stderr


def check(*arguments) -> dict:
    done = subprocess.run([Path(sys.executable).parent / "check-jsonschema", "-o", "json", *arguments],
                          capture_output=True, text=True)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def errors_in(files) -> dict[Path, list[str]]:
    """Returns the files with errors, and the places and words of each error."""
    answer = check("--schemafile", SCHEMA, *files)
    errors = collections.defaultdict(list)
    for error in [*answer.get("errors", []), *answer.get("parse_errors", [])]:
        errors[Path(error["filename"])].append(f"{error.get('path')}: {error['message']}")
    return errors


def test_the_schema_is_one_of_its_draft():
    assert check("--check-metaschema", SCHEMA)["status"] == "ok"


def test_shipped_experiments_are_accepted():
    assert errors_in([*SHIPPED, ROOT / "cmake/bundle/first-gpu.yaml"]) == {}


def test_experiments_that_tests_of_the_loader_expand_are_accepted(runner_test, tmp_path):
    sources = [path for path in ROOT.glob("tests/runner/*/*_test.cpp") if "expanded(" in path.read_text()]
    subprocess.run([runner_test, "-#", ",".join(f"[#{path.stem}]" for path in sources)], check=True,
                   capture_output=True, env={**os.environ, "FSDP_KEPT_EXPERIMENTS": str(tmp_path)})
    kept = [path for path in tmp_path.iterdir() if "\t" not in path.read_text()]  # which Python's reader refuses
    assert len(kept) > 90
    assert {path.read_text(): errors for path, errors in errors_in(kept).items()} == {}


# --- the corpus of malformed experiments ---

# Files with mistakes that a reader of YAML refuses, and with mistakes of several keys or files.
NOT_OF_ONE_KEY = {"bytes", "syntax", "contradictions", "inputs"}
# Words of the other files' messages about more than one key.
SEVERAL_KEYS = re.compile(
    r"excludes|duplicate key|does not divide|below its `from`|already the name|is no point|leaves|runs are named|"
    r"are the same|equally many|combinations than|more runs|too large to add|none fits|sequences per step|a run's name|"
    r"has no value in|itself derived|' gives |which is not a number|'single' is not|not a finite|means nothing here")


def mistakes_of_one_key() -> dict[str, str]:
    """Returns the experiments of the corpus by their titles."""
    experiments = {}
    for file in CORPUS.glob("*.txt"):
        for case in file.read_text().split("\n== ")[1:] if file.stem not in NOT_OF_ONE_KEY else []:
            expected, _, text = case.partition("\n--\n")
            if not SEVERAL_KEYS.search(expected):
                experiments[expected.partition("\n")[0]] = text
    return experiments


def test_mistakes_of_one_key_are_refused(tmp_path):
    experiments = mistakes_of_one_key()
    files = {title: tmp_path / f"{title.replace('/', ' ')}.yaml" for title in experiments}
    for title, file in files.items():
        file.write_text(experiments[title])
    refused = errors_in(files.values())
    missed = [title for title, file in files.items() if file not in refused]
    assert len(files) > 120 and len(missed) <= len(files) / 10, missed


# --- right and wrong values of every key ---

Key = collections.namedtuple("Key", "name allowed default")


def keys_of(text) -> list[Key]:
    return [Key(*groups) for groups in re.findall(r"^  (\S+): (.*?)(?:; default: (.*))?$", text, re.MULTILINE)]


@pytest.fixture(scope="module")
def reference(runner) -> list[str]:
    """The text of `schema`: the keys of a file, and those of a run."""
    text = subprocess.run([runner, "schema"], check=True, capture_output=True, text=True).stdout
    return text.split("\nA run's keys")


def limits_of(allowed) -> list[str]:
    """Returns the numbers at the ends of a range, and beyond them."""
    limits = []
    for words, number in re.findall(r"(at least|at most|greater than|less than) ([\d.e+]+)", allowed):
        beyond = 1 if words in ("at most", "less than") else -1
        limits += [number, str((int(number) if number.isdigit() else float(number)) + beyond)]
    return limits


def values_of(key) -> dict[str, None]:
    names = [name for name in key.allowed.split(", ") if re.fullmatch(r"[\w-]+", name)]
    return dict.fromkeys([key.default, *names, *limits_of(key.allowed), "null", "{a: b}", "[1, 2]", "no_such_value",
                          "''", "1.5", "yes", "true", "'${strategy.ranks} * 2'", "'${strategy.rank}'"])


def nested(name, value):
    first, _, rest = name.partition(".")
    return f"{first}: " + (f"{{{nested(rest, value)}}}" if rest else value)


def points_of(key):
    """Returns points with the key and with misspelt ones, dotted, nested and in sweeps."""
    for value in values_of(key):
        yield from [f"{key.name}: {value}", nested(key.name, value)]
    for value in [key.default, "{a: b}", "no_such_value"]:
        yield f"sweep: {{zip: {{{key.name}: [{value}]}}, exclude: [{{{key.name}: [{value}]}}]}}"
    for name in [key.name + key.name[-1], key.name[:-1], key.name.upper()]:
        yield from [f"{name}: {key.default}", nested(name, key.default)]
        yield f"sweep: {{product: {{{name}: [{key.default}]}}}}"
        yield f"sweep: {{include: [{{{name}: {key.default}}}]}}"
        yield f"sweep: {{exclude: [{{{nested(name, key.default)}}}]}}"


def assert_agree(by_loader: set, by_schema: set):
    """Of what the loader refuses, the schema refuses nine tenths, and nothing else."""
    assert by_schema - by_loader == set()
    assert len(by_loader - by_schema) <= len(by_loader) / 10, by_loader - by_schema


def test_schema_and_loader_agree_on_every_key_of_a_run(call, reference, tmp_path):
    points = [point for key in keys_of(reference[1]) if key.default for point in points_of(key)]
    file = tmp_path / "points.yaml"
    lines = [f"  - {{name: point {number}, {point}}}" for number, point in enumerate(points)]
    file.write_text("\n".join(["experiment: points", "points:", *lines]))
    told = call("check", file, fails_with=2).stderr
    by_loader = {points[int(line) - 3] for line in re.findall(r"points\.yaml:(\d+):\d+: '", told)}
    by_schema = {points[int(re.match(r"\$\.points\[(\d+)\]", error)[1])] for error in errors_in([file])[file]}
    assert len(by_loader) > 5000 and len(set(points) - by_loader) > 1500
    assert_agree(by_loader, by_schema)
    # The schema does not look into the sections of `exclude`, and allows expressions there.
    assert {point for point in by_loader - by_schema if "exclude" not in point} == set()


WHOLE = {
    "experiment": "whole", "title": "A title", "compare": "loss",
    "profiles": {"NAME": {"requires": {"gpus": 1, "gpu_memory_gib": 8}, "set": {"train.seed": 2}}},
    "base": {"train.steps": 3},
    "points": [{"name": "one", "sweep": "none"}, {"name": "two"}],
    "sweep": {"product": {"train.seed": [1, 2]}, "zip": {"threads_per_rank": [1]}, "include": [{"train.seed": 3}],
              "exclude": [{"train.seed": 2}], "repeats": {"count": 2, "change_seed": False},
              "double": {"batch.size_per_rank": {"from": 1, "to": 4, "refine": True}}},
}


def changed_files(path):
    """Returns whole experiments with another value, or another name, of this key."""
    for value in [None, -1, 1, 1.5, True, "", "word", [], ["word"], [{"a": 1}], {}, {"a": {"b": 1}}, ...]:
        whole = json.loads(json.dumps(WHOLE))
        parent, key = whole, path.replace("KEY", "batch#size_per_rank").split(".")
        for name in key[:-1]:
            parent = parent[name.replace("#", ".")]
            parent = parent[0] if isinstance(parent, list) else parent
        if value is ...:
            parent[key[-1] + key[-1][-1]] = parent.pop(key[-1])
        else:
            parent[key[-1]] = value
        yield json.dumps(whole)


def test_schema_and_loader_agree_on_every_other_key_of_a_file(call, reference, tmp_path):
    texts = [json.dumps(WHOLE), *(text for key in keys_of(reference[0]) for text in changed_files(key.name))]
    files = {tmp_path / f"{number}.yaml": text for number, text in enumerate(texts)}
    for file, text in files.items():
        file.write_text(text)
    by_loader = {text for file, text in files.items()
                 if call(file, "--dry-run", "--profile", "NAME", "--set", "device=cpu", fails_with=None).returncode}
    assert texts[0] not in by_loader and len(by_loader) > 150
    assert_agree(by_loader, {files[file] for file in errors_in(files)})
