#!/usr/bin/env bash
# The folders sim/, rewards/, drivers/ and configs/ are imported as robo_rl.sim and so on. mypy and editors want to see
# them there: this lays a tree of links, .lint/robo_rl, in which they stand under robo_rl/.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf .lint
mkdir -p .lint/robo_rl
for entry in robo_rl/*; do
  ln -s "../../$entry" ".lint/$entry"
done
for folder in sim rewards drivers configs; do
  ln -s "../../$folder" ".lint/robo_rl/$folder"
done
