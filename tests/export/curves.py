"""What trackers must have of a run, from the CSV export."""

import csv
import json

import pandas

EVENTS = {
    "steps": {"train/loss": "loss", "train/learning_rate": "learning_rate", "train/gradient_norm": "gradient_norm",
              "time/step_time_ms": "step_time_ms", "time/communication_time_ms": "communication_time_ms",
              "memory/allocated_bytes_max": "memory_allocated_bytes_max",
              "memory/reserved_bytes_max": "memory_reserved_bytes_max"},
    "evaluations": {"validation/loss": "loss", "validation/token_accuracy": "token_accuracy"},
}
DEVICE = ["utilization_percent", "memory_used_bytes", "power_watts", "temperature_celsius"]


def read(file):
    """Returns the rows in their order, without empty fields. What was measured is a number."""
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    texts = {"host", "device", "device_name"}
    return [{name: value if name in texts else float(value) for name, value in row.items() if value} for row in rows]


def curves(folder):
    """Returns the sorted points (step, value) of each curve of the run with this folder in the CSV export."""
    values = {}
    for table, names in EVENTS.items():
        for row in read(folder / f"{table}.csv"):
            for name, column in names.items():
                # The newest attempt is last, and in it the highest rank, which is the slowest and fullest here.
                values[name, row["step"]] = row.get(column)
    for row in read(folder / "device_samples.csv"):
        for name in DEVICE:
            values[f"device/{row['device']}/{name}", 6] = row.get(name)  # sampled after the last step
    found = {}
    for (name, step), value in sorted(values.items(), key=lambda entry: entry[0]):
        if value is not None:
            found.setdefault(name, []).append((step, value))
    return found


def summaries(export):
    """Returns each run's line of the CSV export, by the run's number."""
    with (export / "runs.csv").open(newline="") as stream:
        return {int(row["run"]): row for row in csv.DictReader(stream)}


def settings(summary):
    """Returns the settings with names such as strategy.ranks, except those that are null."""
    [flat] = pandas.json_normalize(json.loads(summary["spec"])).to_dict("records")
    return {name: value for name, value in flat.items() if value is not None}
