#!/usr/bin/env bash
# Makes the same .venv as examples/quickstart.sh, then lint, types and tests.
# Arguments go to pytest: bash tests/run.sh -m slow -n 0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/setup_venv.sh

ruff check .
ruff format --check .
mypy
# Two processes, a file of tests in one of them: the commands of README build on each other.
python -m pytest --numprocesses 2 --dist loadfile "$@"
