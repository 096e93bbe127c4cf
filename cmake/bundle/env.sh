# Source this before fsdp-run or fsdp-train: finds libtorch and CUDA's libraries where this
# machine's Python (python3, or $PYTHON) has torch installed.
fsdp_torch=$("${PYTHON:-python3}" -c '
import importlib.util
import sys

spec = importlib.util.find_spec("torch")
if spec is None:
  sys.exit(f"env.sh: {sys.executable} has no torch; activate the environment with torch 2.11.0")
print(spec.submodule_search_locations[0])') || return 1
LD_LIBRARY_PATH="$fsdp_torch/lib:$fsdp_torch/../nvidia/cu13/lib:$fsdp_torch/../nvidia/cudnn/lib\
:$fsdp_torch/../transformer_engine/wheel_lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
unset fsdp_torch
