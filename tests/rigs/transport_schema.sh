#!/usr/bin/env bash
# Make the Python code of the wire's messages from their schema, with grpcio-tools of constraints.txt: the code runs with
# the protobuf of the same release (pyproject.toml names it) and newer ones of its major version.
set -euo pipefail
cd "$(dirname "$0")/../.."
out="${1:-robo_rl/transport}"
python="${PYTHON:-.venv/bin/python}"
"$python" -m grpc_tools.protoc -Irobo_rl/transport --python_out="$out" --pyi_out="$out" robo_rl/transport/messages.proto
