#!/usr/bin/env bash
# From a fresh clone to answers: makes .venv, stores examples/corpus in ./.lmk, asks three questions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/setup_venv.sh

lmk ingest examples/corpus --collection library
for question in \
  "How can Python tell apart the two times that a clock shows the same hour in autumn?" \
  "How do I bring the database back to how it was yesterday before a table was dropped?" \
  "Who did the governess see standing on top of the tower?"; do
  printf '\n> %s\n\n' "$question"
  lmk search "$question" --collection library --limit 2 --by-document
done
