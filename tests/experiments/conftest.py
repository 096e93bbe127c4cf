import pathlib


def pytest_addoption(parser):
    parser.addoption("--runner", type=pathlib.Path, help="fsdp-run, built, with fsdp-train beside it")
