"""Types the commands that the documents and --help show. What a document shows of the output is printed.

The commands are typed in a folder with the shipped experiments, after README's first one has trained
the lab there."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "AGENTS.md", ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
LAB = "fsdp-run experiments/lab.yaml"

# Commands that the test does not type, with the reason. The patterns are sought in the document's name and the command.
NOT_TYPED = {
    r" fetch ": "a hub",
    r"fsdp-run (?!check).*(--launcher slurm|--detach|--follow)|\bcancel|sbatch|cluster.md fsdp-run status": "Slurm",
    r"\b(FILE|RUN|COMMAND|NAME)\b|fsdp-run (attempt|check|diff|fetch|plan)$|--(gpu|max|set)$": "a placeholder",
    r"fsdp-run import|mine.yaml": "a file of another trainer",
    r"\||<\(| > |watch |--to curves": "another program",
    r"smollm2|make_model": "a model to be made first",
    r"--self-test|calibrate|prepare": "minutes; tests of their own",
    r"fsdp-run sample": "a checkpoint",
    r"merge|class|--results|\[train|diff 12|prune|batch$|report batch|yaml chess": "other results",
    r"--rerun|--time-limit|--skip-oversized|" + LAB + " --set": "another training",
    r"--reference|--notes|lora.rank": "files or keys of the user",
    r"my_trainer|before/fingerprints": "another trainer; tests of their own",
    r"diverge.md fsdp-run diverge 4x|diverge.*--step": "a broken trainer; tests of their own",
    r"--format (trace|memory)": "runs with traces; tests/why has some",
}

# Parts of the lab's table that depend on the machine, or on noise.
VARYING = [r"(?<=chess data; ).*?(?=No GPU is used)", r"\d+ +\d+(?: \?)?(?= +\d+ x \d+)",
           r"\? may be noise[^*]*", r"(?<=Speed:).*?(?=Loss:)", r"(?<=Next:).*"]


def in_short(line):
    """Returns the command of a line without the prompt, the comment and the program's folder."""
    line = re.sub(r"\s+#.*", "", line.strip())
    return re.sub(r"^(\$ )?(\./)?fsdp-run ", "fsdp-run ", line)


def typed(commands, document="--help"):
    return {command: shown for command, shown in commands.items()
            if not any(re.search(pattern, f"{document} {command}") for pattern in NOT_TYPED)}


def blocks_of(text):
    """Returns pairs: a block's lines, and the text before the next block."""
    parts = re.split(r"^ *```\w*\n", text, flags=re.MULTILINE)
    return [(block.splitlines(), after.strip()) for block, after in zip(parts[1::2], parts[2::2])]


def commands_of(document):
    """Returns the commands in the document's blocks and sentences, and what it shows of their output."""
    text = document.read_text()
    commands = {}
    blocks = blocks_of(text)
    for at, (lines, after) in enumerate(blocks):
        for number, line in enumerate(lines):
            if not re.match(r"\s*(\$ )?(\./)?fsdp-run ", line):
                continue
            shown = "\n".join(lines[number + 1:]).partition("\n$ ")[0] if line.startswith("$ ") else ""
            is_last = number + 1 == len(lines) and at + 1 < len(blocks)
            if is_last and not after or (document.name, in_short(line)) == ("README.md", LAB):
                shown = "\n".join(blocks[at + 1][0])
            commands[in_short(line)] = shown
    for quoted in re.findall(r"`((?:\./)?fsdp-run [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        commands.setdefault(in_short(re.sub(r"\s+", " ", quoted)), "")
    if document.name in ("planning.md", "README.md"):
        for options in re.findall(r"`(--(?:max|ranks|suggest|set|gpu|host-memory-gib)\b[^`]*)`", text):
            if not re.search(r" [A-Z]\b|method", options):
                option = "--gpu a100-80 " * ("--gpu" not in options) + options
                commands.setdefault(f"fsdp-run plan experiments/lab.yaml {option}", "")
    return commands


CASES = [(document.name, command, shown)
         for document in DOCUMENTS for command, shown in typed(commands_of(document), document.name).items()]


def pattern_of(shown):
    """Returns a pattern for the output. `...` stands for anything. Line breaks may be elsewhere."""
    if shown.startswith("One fine-tuning job"):
        for varying in VARYING:
            shown = re.sub(varying, " ... ", shown, flags=re.DOTALL)
    return re.compile(r"\s*".join(".*?" if word == "..." else re.escape(word) for word in shown.split()), re.DOTALL)


@pytest.fixture(scope="module")
def folder(runner, tmp_path_factory):
    """Has the experiments, and results of the lab. The lab's output is in `lab`."""
    folder = tmp_path_factory.mktemp("documents")
    shutil.copytree(ROOT / "experiments", folder / "experiments", ignore=shutil.ignore_patterns("data"))
    (folder / "experiments/data").symlink_to(ROOT / "experiments/data")
    shutil.copy(folder / "experiments/lab.yaml", folder / "my.yaml")
    (folder / "lab").write_text(run(runner, folder, LAB, columns=80).stdout)
    return folder


def run(runner, folder, command, status=(0,), columns=120):
    done = subprocess.run([runner, *shlex.split(command)[1:]], cwd=folder, stdin=subprocess.DEVNULL,
                          env={**os.environ, "COLUMNS": str(columns)}, capture_output=True, text=True)
    assert done.returncode in status, done.stdout + done.stderr
    return done


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="the documents show a host without GPUs")
@pytest.mark.parametrize("document, command, shown", CASES,
                         ids=[f"{document}-{command}" for document, command, _ in CASES])
def test_a_command_of_a_document_works_and_prints_what_is_shown(runner, folder, document, command, shown):
    # `doctor` tells by 1 that something is missing here.
    printed = (folder / "lab").read_text() if command == LAB else run(
        runner, folder, command, (0, 1) if "doctor" in command else (0,)).stdout
    assert pattern_of(shown).match(printed.strip()), printed
    if " plan " in command:
        assert "No plan for" not in printed, printed


COMMANDS = re.findall(r'Command\{"(\w+)", "[^"]+",\s*add_\w+\}', (ROOT / "runner/commands/commands.h").read_text())


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="the examples are for any host")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_commands_help_work(runner, folder, command):
    examples = run(runner, folder, f"fsdp-run {command} --help").stdout.partition("Examples:\n")[2].splitlines()
    lines = [re.split(r"\s{2,}", line.strip())[0] for line in examples if line.startswith("  ")]
    for example in typed(dict.fromkeys(map(in_short, lines), "")):
        if example.startswith("fsdp-run "):
            run(runner, folder, example, (0, 1) if "doctor" in example else (0,))


@pytest.mark.parametrize("document", ["README.md", "docs/planning.md"])
def test_the_table_of_methods_has_the_plans_figures(runner, folder, document):
    plan = run(runner, folder, "fsdp-run plan experiments/methods.yaml --profile 24gb --gpu rtx4090").stdout
    planned = re.findall(r" (\S+) +\S+ +23\.6 +(\S+) +fits", plan)
    rows = re.findall(r"^\| (?:full|LoRA|QLoRA).*", (ROOT / document).read_text(), re.MULTILINE)
    shown = [tuple(re.findall(r"\| (\d+\.\d+)(?= GiB \|| \|)", row)[:2]) for row in rows]
    assert len(planned) == 5 and shown == planned


def test_a_mistake_is_shown_as_experiments_md_shows_it(runner, folder):
    shown = next("\n".join(lines) for lines, _ in blocks_of((ROOT / "docs/experiments.md").read_text())
                 if "fdsp" in lines[0])
    text = (folder / "my.yaml").read_text().replace("strategy: {kind: fsdp}", "strategy: {kind: fdsp}", 1)
    (folder / "mistake/experiments").mkdir(parents=True)
    (folder / "mistake/experiments/lab.yaml").write_text(text)
    told = run(runner, folder / "mistake", "fsdp-run check experiments/lab.yaml", (2,)).stderr
    assert told.splitlines() == shown.splitlines()


def test_every_reason_not_to_type_a_command_is_needed():
    commands = [f"{document.name} {command}" for document in DOCUMENTS for command in commands_of(document)]
    helps = "".join(path.read_text() for path in (ROOT / "runner/commands").glob("*.cpp"))
    commands += [in_short(line) for line in re.findall(r"^  (?:\w+=\S+ )?fsdp-run .*", helps, re.MULTILINE)]
    idle = [pattern for pattern in NOT_TYPED if not any(re.search(pattern, command) for command in commands)]
    assert idle == []
