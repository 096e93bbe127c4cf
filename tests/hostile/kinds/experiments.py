"""Experiment files: odd values, types, names, YAML's darker corners, damaged text."""

import re

import yaml

from tests.hostile import figures, odd
from tests.hostile.case import Case

POINT_NAMES = ["one", "ONE", "a b", "a-b", "a/b", "..", ".", "名前", "層", "x" * 300, "y" * 100, "-x",
               "\u202ex", "a\x1bb", "a\nb", "tab\there", " lead", "trail ", "", "null", "1", "true",
               "a.b", "#", "e\u0301"]

# Keys with sensible values, so odd ones stand out.
SENSIBLE = {
    "train.steps": [1, 2, 5],
    "train.epochs": [1],
    "train.sequences": [40],
    "train.max_steps": [2],
    "train.seed": [0, 3],
    "train.warmup_steps_excluded": [0, 1, 100],
    "train.on_non_finite": ["stop", "skip"],
    "batch.size_per_rank": [1, 2],
    "batch.total": [2, 4, 8],
    "batch.gradient_accumulation_steps": [1, 2],
    "strategy.kind": ["single", "ddp", "fsdp"],
    "strategy.ranks": [1, 2],
    "strategy.prefetch": [0, 1],
    "strategy.sharding": ["full_shard", "no_shard", "hybrid_shard"],
    "strategy.shard_group_size": [1, 2],
    "strategy.wrap": ["none", {"blocks": 2}],
    "strategy.offload": ["none", "optimizer"],
    "precision": ["fp32", "bf16_mixed", {"parameters": "bf16", "reduction": "fp32"}],
    "optimizer.kind": ["adamw", "sgd"],
    "optimizer.learning_rate": [1e-3, "1e-4 * ${batch.size_per_rank}"],
    "optimizer.gradient_clip_norm": [1.0],
    "optimizer.beta1": [0.5],
    "optimizer.state_dtype": ["bf16"],
    "schedule.kind": ["constant", "cosine", "step"],
    "schedule.step_size": [1],
    "schedule.warmup_steps": [1],
    "evaluation.every_steps": [1, 2],
    "evaluation.fraction": [0.2, 0.5],
    "evaluation.batches": [1],
    "checkpoint.every_steps": [1],
    "checkpoint.keep": [1],
    "checkpoint.at_end": [True],
    "communication.timeout_s": [10],
    "device_samples.every_s": [1],
    "memory_limit_gib": [0, 1, 1e-9],
    "threads_per_rank": [1],
    "resume": ["auto", "no/such/folder"],
    "data.sequence_length": [8, 16, 17],
    "data.shuffle": [True, False],
    "data.kind": ["tokens", "chess", "text", "instructions", "messages", "wikihow"],
    "data.train": ["sweep/tokens.npy"],
    "model.config.hidden_size": [16, 32],
    "model.config.num_hidden_layers": [1, 2],
    "model.config.vocab_size": [64, 1024],
    "model.config.num_attention_heads": [2, 3],
    "model.config.head_dim": [6, 7],
    "model.config.max_position_embeddings": [16, 2048],
    "model.config.rope_theta": [10.0],
    "activation_checkpointing.every": [0, 1],
    "slurm.nodes": [1, 2],
    "slurm.time": ["1:00", "60"],
    "slurm.mem": ["1G"],
    "slurm.environment": [["A=b"]],
    "wandb.project": ["p"],
}


def attack(case: Case) -> None:
    case.take("sweep")
    text = write(case, experiment(case))
    if case.random.random() < 0.5:
        text = case.random.choice(TEXT_MUTATIONS)(case, text)
    case.write("experiment.yaml", text)
    _, planned = case.check_and_plan("experiment.yaml")
    if not planned.ok:
        return
    try:
        runs = [run for run in yaml.load_all(planned.output, yaml.CSafeLoader) if run]
    except (yaml.YAMLError, ValueError) as error:
        case.fail(f"--dry-run prints no YAML: {error}")
        return
    if is_small(runs):
        ended = case.train("experiment.yaml", "--time-limit", "10s")
        if ended.status == 2:
            case.fail(f"check finds no mistake, but the run says\n{ended.excerpt()}")
        if ended.status in (0, 1):
            figures.check_results(case, case.work / "results")


def is_small(runs: list) -> bool:
    """True if the stub trainer finishes these runs fast."""
    return len(runs) <= 8 and all(run["strategy"]["ranks"] <= 4 and min(
        run["train"]["steps"] or 1, run["train"]["max_steps"] or 10**9) <= 100 and
                                  run["checkpoint"]["every_steps"] != 0 for run in runs)


def experiment(case: Case) -> dict:
    random = case.random
    base = {"train.steps": 2, "device": "cpu", "data": {"kind": "tokens",
                                                        "train": "sweep/tokens.npy",
                                                        "sequence_length": 16},
            "batch.size_per_rank": 1}
    base.update(settings(case, random.choice([0, 1, 1, 2, 3])))
    document: dict = {"experiment": random.choice(["trial", "trial", name(case)]), "base": base}
    if random.random() < 0.3:
        document["title"] = odd.text(random)
    if random.random() < 0.7:
        document["points"] = [{"name": random.choice(["p", name(case)]) if random.random() < 0.6
                               else f"p{i}", **settings(case, random.choice([0, 0, 1, 2]))}
                              for i in range(random.choice([1, 1, 2, 3]))]
    if random.random() < 0.4:
        document["sweep"] = sweep(case)
    if random.random() < 0.15:
        document["profiles"] = {name(case): {"requires": {"gpus": odd.integer(random)},
                                             "set": settings(case, 1)},
                                "cpu": {"set": settings(case, 1)}}
    if random.random() < 0.1:
        document[odd.text(random)] = odd.scalar(random)
    if random.random() < 0.05:
        document["compare"] = odd.scalar(random)
    return document


def name(case: Case) -> str:
    return case.random.choice(POINT_NAMES) if case.random.random() < 0.8 else odd.text(case.random)


def settings(case: Case, count: int) -> dict:
    """Returns `count` keys, each with a sensible or an odd value."""
    chosen = {}
    for key in case.random.sample(list(SENSIBLE), count):
        if case.random.random() < 0.5:
            chosen[key] = case.random.choice(SENSIBLE[key])
        else:
            chosen[key] = odd_value(case)
            case.note(f"{key}: {str(chosen[key])[:60]!a}")
    return chosen


def odd_value(case: Case):
    return case.random.choice([
        odd.scalar, odd.integer, odd.number, odd.text,
        lambda random: [odd.scalar(random)] * random.choice([0, 1, 3]),
        lambda random: {odd.text(random): odd.scalar(random)}, lambda random: random.choice([
                            "${strategy.ranks}", "${train.steps} * 1e300", "${batch.total} / 0",
                            "${no.such}", "${", "${train.seed} * 9223372036854775807"
                        ])
    ])(case.random)


def sweep(case: Case):
    random = case.random
    key = random.choice(list(SENSIBLE))
    values = random.choice([SENSIBLE[key], [1, 1], [], [odd_value(case), odd_value(case)]])
    other = random.choice(list(SENSIBLE))
    return random.choice([
        {"product": {key: values}}, {"product": {key: values, other: SENSIBLE[other]}},
        {"zip": {key: values,
                 other: [1, 2]}}, {"repeats": random.choice([1, 2, 0, -1,
                                                             odd.integer(random)])},
        {"product": {key: values}, "exclude": [{other: odd_value(case)}]},
        {"product": {key: values}, "repeats": {"count": 2, "change_seed": True}}, {
            "double": {
                "batch.size_per_rank": {
                    "from": 1, "to": random.choice([2, 4, 0, -1, odd.integer(random)])
                }
            }
        },
        {"double": {key: {"from": odd.integer(random), "to": odd.integer(random),
                          "refine": True}}}, {"include": [{key: odd_value(case)}]}, "none", [],
        [{"product": {key: values}}] * 2,
        odd_value(case)
    ])


class Dumper(yaml.SafeDumper):
    """Writes infinite and NaN floats, and floats that PyYAML would write as text, as YAML numbers."""


Dumper.add_representer(float, lambda dumper, value: dumper.represent_scalar(
    "tag:yaml.org,2002:float", {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))))


def write(case: Case, document: dict) -> str:
    return yaml.dump(document, Dumper=Dumper, allow_unicode=case.random.random() < 0.5,
                     default_flow_style=case.random.choice([None, True, False]), sort_keys=False,
                     width=case.random.choice([80, 10**9]))


def damage(case: Case, text: str) -> str:
    return case.damaged(text.encode(), "text").decode("utf-8", "surrogateescape")


def replace_value(case: Case, text: str) -> str:
    """Replaces a value by rare YAML syntax."""
    values = [match.span(1) for match in re.finditer(r": ([^\n:{}\[\],]+)", text)]
    if not values:
        return text
    begin, end = case.random.choice(values)
    new = case.random.choice(["&a x", "*a", "!!binary AAAA", "!!int 1", "!tag x", "|\n  text",
                              ">-\n  text", "? x", "{<<: *a}", "2026-01-01", "1_000", "0o17", "0b1",
                              "1:30", ".inf", ".NaN", "+.5", "1.", "0x1F", "1e3", "~", "", "'", '"',
                              "@x", "`x", "%x", "[1, 2", "{a: 1", "- 1", "yes", "<<",
                              "\"\\x1b[2J\"", "\"\\u0085\"", "\"\\0\"", "\"\\ud800\"",
                              "!!python/object:os.system x", odd.nested(case.random),
                              odd.nested(case.random, "{a: ", "}"), "9" * 10000])
    case.note(f"a value became {new[:40]!a}")
    return text[:begin] + new + text[end:]


def insert_line(case: Case, text: str) -> str:
    lines = text.split("\n")
    at = case.random.randrange(len(lines))
    new = case.random.choice([
        "---", "...", "%YAML 1.2", "# comment \x1b[2J", "\t", "\ttab: 1", "base: {}",
        "experiment: x", "<<: {a: 1}", "a: &a [*a]", "x: &x {y: *x}", "? [a]\n: b", "- item",
        "\x00", "\ufeff", "  odd: indent", "sweep: {}", "points: []", "points: null",
        "points: [{}]", "points: [{name: a}, {name: a}]", "points: 7", "l0: &l0 [1]\n" +
        "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 9))
    ])
    case.note(f"line {at + 1}: {new[:40]!a}")
    return "\n".join([*lines[:at], new, *lines[at:]])


def line_ends(case: Case, text: str) -> str:
    ends = case.random.choice(["\r\n", "\r", "\u2028", "\n\n", "\x85"])
    case.note(f"line ends {ends!a}")
    return text.replace("\n", ends)


def grow(case: Case, text: str) -> str:
    what = case.random.choice(["points", "comment", "blanks", "key"])
    case.note(f"grown by {what}")
    return {"points": "experiment: many\npoints:\n" + "".join(f"  - {{name: p{i}}}\n" for i in range(3000)),
            "comment": "# " + "c" * (2 << 20) + "\n" + text,
            "blanks": text + "\n" * 200_000,
            "key": "k" * 100_000 + ": 1\n" + text}[what]


TEXT_MUTATIONS = (damage, replace_value, replace_value, insert_line, insert_line, line_ends, grow)
