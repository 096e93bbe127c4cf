"""cmake/setup chooses a PyTorch by the driver, the GPUs, FSDP_CUDA and FSDP_TORCH. It runs in a
copied folder. There, .venv's Python only notes which wheels to install, and cmake only what to
build."""

import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
WHEELS = SOURCE / "cmake/wheels"

PYTHON = """#!/usr/bin/env bash
site=$(dirname "$0")/../lib/python3.11/site-packages
[[ $* != "-m pip --version" ]] || exit 0
echo "$*" >> "$NOTES"
[[ $* != *" uninstall "* ]] || for wheel; do rm -rf "$site/$wheel"-*; done
[[ $* != *" install "* ]] || for wheel; do
  [[ $wheel == *==* ]] || continue
  mkdir -p "$site/${wheel/==/-}.dist-info" && touch "$site/${wheel/==/-}.dist-info/INSTALLER"
done
if [[ $* =~ \\ install\\ .*\\ ?torch==([0-9]+).([0-9]+).([0-9]+) ]]; then
  header=$site/torch/include/torch/headeronly/version.h
  mkdir -p "${header%/*}"
  printf '#define TORCH_VERSION_%s %s\\n' MAJOR "${BASH_REMATCH[1]}" MINOR "${BASH_REMATCH[2]}" \\
    PATCH "${BASH_REMATCH[3]}" > "$header"
fi
"""
CMAKE = """#!/usr/bin/env bash
[[ $1 != --version ]] || { echo "cmake version ${CMAKE_VERSION:-3.25.1}"; exit; }
echo "cmake $* FSDP_TORCH=${FSDP_TORCH:-}" >> "$NOTES"
"""
NVIDIA_SMI = """#!/usr/bin/env bash
case $1 in
  --query-gpu=driver_version) echo {driver} ;;
  --query-gpu=compute_cap) printf '%s\\n' {capabilities} ;;
esac
"""
DRIVER_12 = "550.54.15"
DRIVER_13 = "580.65.06"

with_own_driver = pytest.mark.skipif(
    pathlib.Path("/proc/driver/nvidia/version").exists(), reason="the driver here outranks made-up ones")


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Folder:
    """A copy of cmake/ on a host with this driver and these GPUs."""

    def __init__(self, path):
        self.path = path
        self.notes = path / "notes"
        shutil.copytree(SOURCE / "cmake", path / "cmake")
        program(path / ".venv/bin/python", PYTHON)
        program(path / "programs/cmake", CMAKE)
        program(path / "programs/nvidia-smi", "#!/bin/sh\nexit 9\n")

    def has(self, driver, capabilities="8.0"):
        text = NVIDIA_SMI.format(driver=driver, capabilities=capabilities)
        program(self.path / "programs/nvidia-smi", text)

    def set_up(self, wheels="cpu cuda", before=(), where=".", targets=("fsdp-train",), **variables):
        own = SOURCE / ".deps/usr"  # set-up without root puts headers there
        environment = {"PATH": f"{self.path}/programs:/usr/bin:/bin:{own}/bin", "NOTES": self.notes,
                       "CMAKE_PREFIX_PATH": str(own), **variables}
        self.notes.write_text("")
        return subprocess.run(
            [*before, self.path / "cmake/setup", "cuda", wheels, *targets], cwd=self.path / where,
            env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def installs(self, **arguments):
        """Returns the set of wheels that setup installs."""
        ended = self.set_up(**arguments)
        assert ended.returncode in (0, 1), ended.stderr  # 1: nothing was built
        assert "cmake/setup: line" not in ended.stderr
        return {word for line in self.notes.read_text().splitlines() if " install " in line
                for word in line.split() if "==" in word}

    def refuses(self, **arguments):
        ended = self.set_up(**arguments)
        assert ended.returncode == 2
        assert self.notes.read_text() == ""
        return " ".join(ended.stderr.split())


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def wheels_of(cuda, *lists):
    lines = [line for name in lists
             for line in (WHEELS / f"cuda{cuda}" / f"{name}.txt").read_text().splitlines()]
    return {line.split()[0] for line in lines if not line.startswith("#")}


ALL_12 = wheels_of(12, "cpu", "cuda")
ALL_13 = wheels_of(13, "cpu", "cuda")


def test_the_lists_have_the_pytorch_that_each_cuda_is_for():
    assert "torch==2.10.0" in ALL_12 and "torch==2.11.0" in ALL_13
    assert not any("cu13" in wheel for wheel in ALL_12) and not any("cu12" in wheel for wheel in ALL_13)


@with_own_driver
@pytest.mark.parametrize("driver, capabilities, expected", [
    ("525.60.13", "8.0", ALL_12),
    (DRIVER_12, "9.0", ALL_12),
    ("575.64.03", "9.0", ALL_12),
    ("580.65.06", "8.0 9.0", ALL_13),
    ("595.10", "10.0", ALL_13),
    ("580.65.06", "7.0 7.0", ALL_12),
    ("580.65.06", "9.0 7.0", ALL_12),
    ("580.65.06", "[N/A]", ALL_13),
])
def test_the_wheels_fit_the_driver_and_the_gpus(folder, driver, capabilities, expected):
    folder.has(driver, capabilities)
    assert folder.installs() == expected


@pytest.mark.parametrize("line, expected", [
    (f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER_12}  Tue Mar  5 22:23:56 UTC 2024", ALL_12),
    (f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER_13}  Release Build", ALL_13),
])
def test_the_kernels_file_names_the_driver(folder, line, expected):
    (folder.path / "version").write_text(line + "\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n")
    mounts = f"""mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia
        cp {folder.path}/version /proc/driver/nvidia/ && exec "$@" """
    before = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", mounts, "-"]
    if subprocess.run([*before, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no mount namespace may be made here")
    assert folder.installs(before=before) == expected


@with_own_driver
def test_without_a_driver_the_user_may_say_it(folder):
    ended = folder.set_up()
    assert "torch==2.11.0" in folder.notes.read_text()
    assert "FSDP_CUDA=12" in ended.stderr
    assert folder.installs(FSDP_CUDA="12") == ALL_12


@with_own_driver
def test_a_newer_driver_serves_both(folder):
    folder.has(DRIVER_13)
    assert folder.installs(FSDP_CUDA="12") == ALL_12
    assert folder.installs(FSDP_CUDA="13") == ALL_13


@with_own_driver
def test_what_is_installed_and_fits_is_kept(folder):
    folder.installs(FSDP_CUDA="12")
    assert folder.installs() == set()  # no driver
    folder.has(DRIVER_13)
    assert folder.installs() == set()
    folder.installs(FSDP_CUDA="13")
    folder.has(DRIVER_13, "7.0")  # not asked again: nvidia-smi is slow, and runs refuse such a GPU
    assert folder.installs() == set()


@with_own_driver
def test_what_is_installed_and_does_not_fit_is_replaced(folder):
    assert folder.installs() == ALL_13
    folder.has(DRIVER_12)
    assert folder.installs() == ALL_12
    site = folder.path / ".venv/lib/python3.11/site-packages"
    installed = {path.name.removesuffix(".dist-info").replace("-", "==", 1)
                 for path in site.glob("*.dist-info")}
    assert installed == ALL_12
    uninstalled = [line for line in folder.notes.read_text().splitlines() if " uninstall " in line]
    assert len(uninstalled) == 1 and "nvidia_nccl_cu13" in uninstalled[0]


def pretend_to_be_built(folder, targets):
    """Leaves the files of a build by a call with these targets."""
    folder.installs()
    build, torch = folder.path / "build/cuda", folder.path / ".venv/lib/python3.11/site-packages/torch"
    for name in ("fsdp-run", "fsdp-train"):
        program(build / name, "")
    for name in ("build.ninja", f"up-to-date.{targets}"):
        (build / name).touch()
    (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={folder.path}\n"
                                          f"FSDP_TORCH_BUILT_AGAINST:INTERNAL=2.11.0 {torch}\n")


@with_own_driver
@pytest.mark.parametrize("targets, is_built", [("fsdp-train fsdp-run-program fsdp-parquet", True), ("fsdp-parquet", False)])
def test_users_of_an_installation_with_more_targets_were_to_build_it_again(folder, targets, is_built):
    pretend_to_be_built(folder, targets)
    folder.set_up()
    assert ("cmake" not in folder.notes.read_text()) == is_built


def test_parquet_needs_no_pytorch(folder):
    targets = ["fsdp-run-program", "fsdp-parquet"]
    [arrow] = folder.installs(wheels="parquet", targets=targets, FSDP_TORCH="/none")
    assert arrow.startswith("pyarrow==")
    assert "--target fsdp-run-program fsdp-parquet" in folder.notes.read_text()


def test_the_library_of_parquet_is_built_with_the_programs_that_load_it(folder):
    (folder.path / "build/cuda/lib").mkdir(parents=True)
    (folder.path / "build/cuda/lib/libfsdp-parquet.so").touch()
    folder.set_up(targets=["fsdp-train", "fsdp-run-program"])
    notes = folder.notes.read_text()
    assert "--target fsdp-train fsdp-run-program fsdp-parquet" in notes and "pyarrow==" in notes


@with_own_driver
def test_a_build_against_another_pytorch_is_made_anew(folder):
    pretend_to_be_built(folder, "fsdp-train")
    assert folder.set_up().returncode == 0 and folder.notes.read_text() == ""
    folder.has(DRIVER_12)
    folder.set_up()
    assert "cmake --fresh --preset cuda" in folder.notes.read_text()
    folder.has(DRIVER_13)
    folder.set_up(FSDP_TORCH=str(pytorch(folder.path / "torch", "2.11.0", 13)))
    assert "cmake --fresh --preset cuda" in folder.notes.read_text()


@pytest.mark.parametrize("version, is_refused", [("3.9.6", True), ("3.24.4", True), ("3.25.0", False), ("4.1.2", False)])
def test_a_cmake_that_is_too_old_is_refused_by_its_version(folder, version, is_refused):
    ended = folder.set_up(CMAKE_VERSION=version)
    assert (f"is CMake {version}; allowed: 3.25 or newer" in ended.stderr) == is_refused
    assert (ended.returncode == 2) == is_refused


def test_a_download_is_told_in_megabytes(folder):
    wheels = [line for line in (WHEELS / "cuda13/cpu.txt").read_text().splitlines() if not line.startswith("#")]
    size = sum(float(line.split()[2]) for line in wheels)
    assert f"installing {len(wheels)} wheels into .venv ({size:.0f} MB)" in folder.set_up(wheels="cpu", FSDP_CUDA="13").stderr


@with_own_driver
def test_the_cpu_variant_is_of_the_same_pytorch(folder):
    folder.has(DRIVER_12)
    assert folder.installs(wheels="cpu") == wheels_of(12, "cpu")
    assert folder.installs() == wheels_of(12, "cuda")


@with_own_driver
def test_a_driver_that_is_too_old_is_refused_for_gpus_alone(folder):
    folder.has("470.82.01", "8.0")
    text = folder.refuses()
    assert "470.82.01" in text and "525" in text and "580" in text and "FSDP_VARIANT=cpu" in text
    assert folder.refuses(FSDP_CUDA="12") == text
    assert folder.installs(wheels="cpu") == wheels_of(12, "cpu")


@with_own_driver
def test_cuda_13_on_an_older_driver_is_refused(folder):
    folder.has(DRIVER_12)
    assert "FSDP_CUDA is 13" in (text := folder.refuses(FSDP_CUDA="13"))
    assert DRIVER_12 in text and "580" in text and "allowed: 12" in text


@pytest.mark.parametrize("value", ["11", "12.8", "cuda12", "1", "014", " 12"])
def test_another_cuda_is_refused(folder, value):
    assert f"FSDP_CUDA is '{value}'; allowed: 12, 13" in folder.refuses(FSDP_CUDA=value)


# --- a PyTorch of the user's ---


def pytorch(path, version, cuda=None, header="headeronly/version.h"):
    """Makes a folder torch/ with only the files that setup reads."""
    header = path / "include/torch" / header
    header.parent.mkdir(parents=True)
    names = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
    header.write_text("".join(f"#define TORCH_VERSION_{name} {number}\n" for name, number in names))
    used = path / "include/torch/csrc/autograd/custom_function.h"
    used.parent.mkdir(parents=True)
    used.touch()
    (path / "lib").mkdir()
    if cuda:
        (path / "lib/libc10_cuda.so").write_bytes(b"\x7fELF\0libcudart.so.%d\0libc10.so\0" % cuda)
    return path


@pytest.mark.parametrize("version", ["2.10.0", "2.11.0", "2.11.1"])
@pytest.mark.parametrize("cuda", [12, 13])
@pytest.mark.parametrize("above", [False, True])
def test_a_pytorch_that_is_there_is_taken_and_none_installed(folder, version, cuda, above):
    torch = pytorch(folder.path / "module/torch", version, cuda)
    named = torch.parent if above else torch
    assert folder.installs(FSDP_TORCH=str(named)) == set()
    assert f"cmake --fresh --preset cuda FSDP_TORCH={named}" in folder.notes.read_text()
    assert folder.installs(FSDP_TORCH=str(named), FSDP_CUDA=str(cuda)) == set()
    assert folder.installs(FSDP_TORCH="." if above else "torch", where="module") == set()


@pytest.mark.parametrize("version, header", [
    ("2.9.1", "headeronly/version.h"),
    ("2.12.0", "headeronly/version.h"),
    ("2.1.2", "csrc/api/include/torch/version.h"),
    ("3.0.0", "headeronly/version.h"),
])
def test_a_pytorch_of_another_version_is_refused_by_name(folder, version, header):
    torch = pytorch(folder.path / "torch", version, 12, header)
    text = folder.refuses(FSDP_TORCH=str(torch))
    assert f"PyTorch {version}; allowed: 2.10, 2.11" in text and str(torch) in text


def test_a_folder_without_pytorch_is_refused(folder):
    assert "there is no PyTorch" in folder.refuses(FSDP_TORCH=str(folder.path / "nothing"))


def test_a_pytorch_without_cuda_is_for_the_cpu_variant(folder):
    torch = pytorch(folder.path / "torch", "2.10.0")
    text = folder.refuses(FSDP_TORCH=str(torch))
    assert "a PyTorch without CUDA" in text and "FSDP_VARIANT=cpu" in text
    assert folder.installs(FSDP_TORCH=str(torch), wheels="cpu") == set()


def test_a_pytorch_for_another_cuda_than_was_said_is_refused(folder):
    torch = pytorch(folder.path / "torch", "2.11.0", 13)
    text = folder.refuses(FSDP_TORCH=str(torch), FSDP_CUDA="12")
    assert "FSDP_CUDA is 12" in text and "a PyTorch for CUDA 13" in text


def test_the_tests_need_the_pytorch_of_the_venv(folder):
    torch = pytorch(folder.path / "torch", "2.11.0", 13)
    assert "in .venv: unset it" in folder.refuses(FSDP_TORCH=str(torch), wheels="cpu cuda tests")


# --- how CMake configures with it ---


def configured(folder, torch, *options, **variables):
    return subprocess.run(
        ["cmake", "-S", SOURCE, "-B", folder.path / "build", "-G", "Ninja", "-DFSDP_CUDA=ON",
         "-DBUILD_TESTING=OFF", *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "FSDP_TORCH": str(torch), **variables})


def toolkit(path, cuda, headers=("cuda_runtime_api.h", "nccl.h")):
    for name in (f"lib64/libcudart.so.{cuda}", *(f"include/{header}" for header in headers)):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).touch()
    return path


def cached(folder, name):
    for line in (folder.path / "build/CMakeCache.txt").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.partition("=")[2]


def test_cuda_comes_from_a_toolkit_of_the_same_version(folder):
    torch = pytorch(folder.path / "torch", "2.10.0", 99)
    wrong = toolkit(folder.path / "toolkit-98", 98)
    text = " ".join(configured(folder, torch, CUDA_HOME=str(wrong)).stdout.split())
    assert "needs libcudart.so.99" in text and "CUDA_HOME" in text
    right = toolkit(folder.path / "toolkit-99", 99)
    ended = configured(folder, torch, CUDA_HOME=str(right))
    assert ended.returncode == 0, ended.stdout
    assert cached(folder, "CUDART_LIBRARY") == f"{right}/lib64/libcudart.so.99"
    assert cached(folder, "CUDA_INCLUDE_DIR") == f"{right}/include"
    assert cached(folder, "FSDP_TORCH_BUILT_AGAINST") == f"2.10.0 {torch}"


def test_cuda_comes_from_the_wheels_beside_pytorch(folder):
    torch = pytorch(folder.path / "site/torch", "2.11.0", 99)
    wheels = folder.path / "site/nvidia"
    toolkit(wheels / "cuda_runtime", 99, ["cuda_runtime_api.h"])
    (wheels / "cuda_runtime/lib64").rename(wheels / "cuda_runtime/lib")
    toolkit(wheels / "nccl", 1, ["nccl.h"])
    elsewhere = toolkit(folder.path / "toolkit-99", 99)
    ended = configured(folder, torch.parent, CUDA_HOME=str(elsewhere))
    assert ended.returncode == 0, ended.stdout
    assert cached(folder, "CUDART_LIBRARY") == f"{wheels}/cuda_runtime/lib/libcudart.so.99"
    assert cached(folder, "CUDA_INCLUDE_DIR") == f"{wheels}/cuda_runtime/include"
    assert cached(folder, "NCCL_INCLUDE_DIR") == f"{wheels}/nccl/include"


def test_a_ccache_that_cannot_compile_is_left_out(folder):
    torch = pytorch(folder.path / "torch", "2.10.0", 99)
    home = toolkit(folder.path / "toolkit-99", 99)
    for ends, is_used in (('exec "$@"', True), ("exit 1", False)):
        program(folder.path / "programs/ccache", f"#!/bin/sh\n{ends}\n")
        shutil.rmtree(folder.path / "build", ignore_errors=True)
        ended = configured(folder, torch, f"-DCCACHE_PROGRAM={folder.path}/programs/ccache", CUDA_HOME=str(home))
        assert ended.returncode == 0, ended.stdout
        assert ("CCACHE_BASEDIR" in (folder.path / "build/CMakeFiles/rules.ninja").read_text()) == is_used


@pytest.mark.parametrize("version, cuda, said", [
    ("2.9.1", 12, "is PyTorch 2.9.1; allowed: 2.10, 2.11"),
    ("2.10.0", None, "is a PyTorch without CUDA"),
])
def test_cmake_refuses_what_set_up_refuses(folder, version, cuda, said):
    ended = configured(folder, pytorch(folder.path / "torch", version, cuda))
    assert ended.returncode != 0
    assert said in " ".join(ended.stdout.split())


@pytest.mark.parametrize(("nvcc", "cudart", "architectures"), [
    ("12.0", 12, "sm_70 sm_75 sm_80 sm_90 compute_90"),
    ("12.7", 12, "sm_70 sm_75 sm_80 sm_90 compute_90"),
    ("12.8", 12, "sm_70 sm_75 sm_80 sm_90 sm_100 sm_120 compute_100"),
    ("13.0", 13, "sm_75 sm_80 sm_90 sm_100 sm_120 compute_100"),
    ("11.8", 12, ""),
    ("13.0", 12, ""),
])
def test_every_nvcc_of_the_cuda_version_compiles_for_the_gpus_it_knows(nvcc, cudart, architectures, tmp_path):
    program(tmp_path / "nvcc", f"#!/bin/sh\necho 'Cuda compilation tools, release {nvcc}, V{nvcc}.1'\n")
    (tmp_path / "print.cmake").write_text(
        f'set(FSDP_CUDA ON)\nset(NVCC_PROGRAM {tmp_path}/nvcc CACHE FILEPATH "")\n'
        f"set(CUDART_LIBRARY libcudart.so.{cudart})\ninclude({SOURCE}/cmake/nvcc.cmake)\n"
        'message("for <${FSDP_KERNEL_ARCHITECTURES}>")\n')
    done = subprocess.run(["cmake", "-P", tmp_path / "print.cmake"], capture_output=True, text=True, check=True)
    assert f"for <{architectures}>" in done.stderr
