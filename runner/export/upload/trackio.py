# Sends the runs beside this file to Trackio, with its own client: to TRACKIO_SPACE_ID or TRACKIO_SERVER_URL, if
# one of them is set.
import json, pathlib, sys

try:
    from trackio import finish, init
except ImportError as error:
    sys.exit(f"{error}\nInstall Trackio: pip install trackio")


def send(run, moments, checkpoint):
    names = {"project": run["project"], "name": f"{run['name']} {run['id']}"}
    no_samples = {"auto_log_cpu": False, "auto_log_gpu": False}  # of this machine
    try:
        init(**names, **no_samples, resume="must")
        finish()
        return print(f"{run['name']}: Trackio already has this run.")
    except ValueError:  # it has no such run
        sent = init(**names, **no_samples, group=run["group"], config=run["config"])
    for moment in moments or [{"step": 0}]:  # Trackio keeps no run without a step
        sent.log(moment, step=moment.pop("step"))
    if checkpoint:
        sent.log_artifact(checkpoint, name=run["id"], type="model")
    finish()
