# Sends the runs beside this file to Weights & Biases, with its own client.
import json, pathlib, sys

try:
    from wandb import init
except ImportError as error:
    sys.exit(f"{error}\nInstall the client of Weights & Biases: pip install wandb")


def send(run, moments, checkpoint):
    # W&B refuses a second upload of the same attempt because the ID already exists.
    with init(**run, resume="never") as sent:
        sent.define_metric("*", step_metric="step")
        for moment in moments:
            sent.log(moment)
        if checkpoint:
            sent.log_model(checkpoint, name=run["id"])
