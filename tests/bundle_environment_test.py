"""env.sh of a bundle finds the libraries of the torch that this machine's Python has. The documents say
which versions of glibc and libstdc++ a bundle needs."""

import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def source(path, site, libraries=None):
    """Sources env.sh, and prints LD_LIBRARY_PATH. Python's packages are in `site`."""
    text = (SOURCE / "cmake/bundle/env.sh.in").read_text().replace("@torch_version@", "2.11.0")
    (path / "env.sh").write_text(text)
    # -S hides this Python's own packages.
    (path / "python").write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n')
    (path / "python").chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(path / "python")}
    if libraries:
        environment["LD_LIBRARY_PATH"] = libraries
    return subprocess.run(["bash", "-c", '. ./env.sh && printf %s "$LD_LIBRARY_PATH"'], cwd=path,
                          env=environment, capture_output=True, text=True)


def make_site(path, *folders):
    site = path / "site-packages"
    for folder in ("torch/lib", *folders):
        (site / folder).mkdir(parents=True)
    (site / "torch/__init__.py").touch()
    return site


def test_cuda_12_has_a_folder_for_each_library(tmp_path):
    names = ("cublas", "cuda_nvrtc", "cuda_runtime", "cudnn", "nccl")
    site = make_site(tmp_path, *(f"nvidia/{name}/lib" for name in names), "nvidia/cuda_nvcc/nvvm")
    found = source(tmp_path, site, "/usr/local/lib").stdout.split(":")
    assert found == [f"{site}/torch/lib", *(f"{site}/nvidia/{name}/lib" for name in names),
                     f"{site}/transformer_engine/wheel_lib", "/usr/local/lib"]


def test_cuda_13_has_one_folder(tmp_path):
    site = make_site(tmp_path, "nvidia/cu13/lib", "nvidia/cudnn/lib")
    assert source(tmp_path, site).stdout.split(":") == [
        f"{site}/torch/lib", f"{site}/nvidia/cu13/lib", f"{site}/nvidia/cudnn/lib",
        f"{site}/transformer_engine/wheel_lib"]


def test_a_python_without_torch_is_an_error(tmp_path):
    ended = source(tmp_path, tmp_path)
    assert ended.returncode == 1
    assert "has no torch; activate the environment with torch 2.11.0" in ended.stderr


def newest_symbols(files):
    """Returns the newest version of each library whose symbols the files need, as objdump shows them."""
    shown = subprocess.run(["objdump", "-T", *files], check=True, capture_output=True, text=True).stdout
    newest = {}
    for library, version in re.findall(r"\((GLIBC|GLIBCXX)_([0-9.]+)\)", shown):
        number = tuple(map(int, version.split(".")))
        newest[library] = max(newest.get(library, ()), number)
    return {f"{library}_{'.'.join(map(str, number))}" for library, number in newest.items()}


def test_the_documents_say_which_versions_a_bundle_needs():
    build = SOURCE / "build/release"
    document = (SOURCE / "docs/set-up.md").read_text()
    libraries = [library for library in (build / "lib").iterdir() if library.is_file()]
    for program, more in ("fsdp-run", []), ("fsdp-train", libraries):
        [needs] = re.findall(rf"^\| `{program}` needs \| (\S+) \| (\S+) \|", document, re.MULTILINE)
        assert set(needs) == newest_symbols([build / program, *more])
    glibc, libstdcxx = needs
    readme = (SOURCE / "cmake/bundle/README.md.in").read_text()
    for text in document, readme:
        assert set(re.findall(r"with glibc (\S+) or newer", text)) == {glibc.removeprefix("GLIBC_")}
    assert libstdcxx in readme
