#!/bin/sh
# Installs onnx, onnxruntime and numpy beside the project (into .deps/onnx), for scripts/compare_onnx.py.
# Nothing in the build or in the main job needs them.
set -eu
cd "$(dirname "$0")/.."
python3 -m pip install --quiet --upgrade --target .deps/onnx onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
PYTHONPATH=.deps/onnx python3 -c 'import onnx, onnxruntime; print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)'
