# Sends the runs beside this file to MLflow, with its own client: to MLFLOW_TRACKING_URI, if it is set.
import json, pathlib, sys

try:
    from mlflow import MlflowClient, set_experiment
    from mlflow.entities import Metric, Param
    client = MlflowClient()
except Exception as error:
    sys.exit(f"{error}\nInstall MLflow: pip install mlflow. For a server, mlflow-skinny is enough.")


def named(values, prefix=""):
    """Yields the values that are set, with names such as strategy.ranks."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from named(value, f"{prefix}{name}.")
        elif value is not None:
            yield prefix + name, value


def send(run, moments, checkpoint):
    experiment = set_experiment(run["project"]).experiment_id
    for sent in client.search_runs([experiment], f"tags.fsdp_run = '{run['id']}'"):
        if sent.info.status != "RUNNING":
            return print(f"{run['name']}: MLflow already has this run.")
        client.delete_run(sent.info.run_id)  # sent before its end, or in part
    comparison = run["config"]["comparison"]
    started, status = comparison["started_unix_ms"] or 0, comparison["status"]
    ended = moments[-1]["time_unix_ms"] if moments else started
    sent = client.create_run(experiment, started, {"fsdp_run": run["id"]}, run["name"]).info.run_id
    metrics, params = [], []
    for name, value in named(run["config"]):
        if name.startswith("comparison.") and type(value) in (int, float):
            metrics.append(Metric(name, value, ended, 0))
        else:
            params.append(Param(name, str(value)))
    for moment in moments:
        time, step = moment.pop("time_unix_ms"), moment.pop("step")
        metrics += [Metric(name, value, time, step) for name, value in moment.items()]
    client.log_batch(sent, metrics, params)
    if checkpoint:
        client.log_artifacts(sent, checkpoint, "checkpoint")
    if status != "running":
        client.set_terminated(sent, "FINISHED" if status == "finished" else "FAILED", ended)
