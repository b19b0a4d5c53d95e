#!/usr/bin/env bash
# Makes the same .venv as examples/quickstart.sh, then lint, types and tests.
# Arguments go to pytest: bash tests/run.sh -m slow
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/setup_venv.sh

ruff check .
ruff format --check .
mypy
python -m pytest "$@"
