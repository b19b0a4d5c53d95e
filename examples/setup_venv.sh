# Sourced by quickstart.sh and tests/run.sh: makes .venv at the top of the clone and installs the
# package with everything its examples and tests use. Does nothing where that is up to date.
#
#     . examples/setup_venv.sh    (from anywhere; leaves $LMK_ROOT set and .venv active)

LMK_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

lmk_setup_venv() {
  local venv="$LMK_ROOT/.venv" stamp wanted python
  stamp="$venv/.lmk-installed"
  wanted="$(cksum <"$LMK_ROOT/pyproject.toml")"
  if [ ! -x "$venv/bin/pip" ]; then # pip comes last: a half-made one is made again
    for python in python3.11 python3.12 python3.13 python3.10 python3; do
      if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then break; fi
      python=""
    done
    if [ -z "$python" ]; then
      echo "Python 3.10 or newer is needed, and none was found" >&2
      return 1
    fi
    echo "making .venv with $("$python" --version)" >&2
    "$python" -m venv "$venv"
  fi
  # shellcheck disable=SC1091
  . "$venv/bin/activate"
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return 0; fi
  echo "installing (a few minutes the first time)" >&2
  python -m pip install --quiet --upgrade "pip>=25.1"
  # Pinned to what the tests ran with, and installed alone so that any torch that is there is kept.
  # Where no wheel for the CPU is found, this may be a CUDA build of several gigabytes.
  python -c 'import torch' 2>/dev/null || python -m pip install --quiet "torch==2.13.0"
  python -m pip install --quiet --editable "$LMK_ROOT[langchain,llama-index,office,openvino,onnx,train,bench]"
  python -m pip install --quiet --group "$LMK_ROOT/pyproject.toml:dev"
  printf '%s' "$wanted" >"$stamp"
}

lmk_setup_venv
