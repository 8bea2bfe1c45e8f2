#!/usr/bin/env python3
"""Compares relayout's outputs for an ONNX file with onnxruntime's.

    scripts/setup_onnx.sh
    relayout exec FILE.onnx --seed N -o DIR
    scripts/compare_onnx.py FILE.onnx --seed N --ours DIR

Weights and inputs are drawn here, in NumPy, by the project's seed rule, restated from its description (models/src/weights.rs
and compiler/ir/src/generate.rs) without sharing code with it. Prints, for each output, the largest absolute difference divided by the
largest absolute reference value. Exit code: 0 when every output is within --tolerance, 1 when one is not or is missing, 2 on bad use.
"""

import argparse
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / ".deps" / "onnx"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

BF16 = onnx.TensorProto.BFLOAT16
# Operators that only move or retype elements: a weight's role is that of the first real consumer behind them.
VIEWS = {"Identity", "Cast", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Slice", "Split", "Dropout"}
EXACT_VIEWS = {"Identity", "Cast", "Transpose", "Dropout"}
NORMS = {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}
MASK64 = (1 << 64) - 1


# ---------------------------------------------------------------- the generator


def fnv1a(data: bytes) -> int:
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK64
    return h


def mix(x):
    """The finaliser of SplitMix64, on uint64 arrays."""
    x = x.copy()
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def draw(seed, key, shape, dist):
    """Element i depends only on (seed, key, i); see compiler/ir/src/generate.rs."""
    count = int(np.prod(shape, dtype=np.int64))
    state = mix(np.array([(seed & MASK64) ^ fnv1a(key.encode())], dtype=np.uint64))
    index = np.arange(1, count + 1, dtype=np.uint64)
    z = mix(state + index * np.uint64(0x9E3779B97F4A7C15))
    kind, low, high = dist
    if kind == "uniform":
        low, high = np.float32(low), np.float32(high)
        unit = (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        return (low + (high - low) * unit).astype(np.float32).reshape(shape)
    span = np.uint64(max(high - low, 1))
    return (np.int64(low) + ((z >> np.uint64(1)) % span).astype(np.int64)).reshape(shape)


# ---------------------------------------------------------------- the rule: which distribution a tensor gets


class Graph:
    def __init__(self, model):
        self.graph = model.graph
        self.consumers = {}
        for index, node in enumerate(self.graph.node):
            for position, name in enumerate(node.input):
                self.consumers.setdefault(name, []).append((index, position))
        typed = list(self.graph.input) + list(self.graph.value_info) + list(self.graph.output)
        self.shapes = {v.name: [d.dim_value if d.HasField("dim_value") else None for d in v.type.tensor_type.shape.dim] for v in typed}
        for init in self.graph.initializer:
            self.shapes[init.name] = list(init.dims)

    def attr(self, node, name, default):
        for a in node.attribute:
            if a.name == name:
                return onnx.helper.get_attribute_value(a)
        return default

    def float_distribution(self, name, shape):
        """By the first consumer (lowest node, then lowest operand), looking through views."""
        axes, exact = list(range(len(shape))), True
        current = name
        while True:
            if not self.consumers.get(current):
                return ("uniform", -1.0, 1.0)
            index, position = self.consumers[current][0]
            node = self.graph.node[index]
            if node.op_type not in VIEWS or position != 0:
                break
            if node.op_type == "Transpose":
                perm = self.attr(node, "perm", None) or list(reversed(range(len(axes))))
                if exact:
                    axes = [axes[p] for p in perm]
            elif node.op_type not in EXACT_VIEWS:
                exact = False
            current = node.output[0]
        seen = [shape[a] for a in axes]
        rank = len(seen)

        def contraction(fan_in):
            if not exact:
                fan_in = max(list(shape)[-2:] or [1])
            bound = np.float32(np.sqrt(np.float32(3.0) / np.float32(max(fan_in, 1))))
            return ("uniform", -bound, bound)

        scale, shift = ("uniform", 0.5, 1.5), ("uniform", -0.1, 0.1)
        op = node.op_type
        if op == "Conv":
            return contraction(int(np.prod(seen[1:]))) if position == 1 else shift
        if op == "MatMul":
            return contraction((seen[-1] if position == 0 or rank < 2 else seen[-2]) if rank else 1)
        if op == "Gemm":
            if position == 2 or rank != 2:
                return shift
            flag = self.attr(node, "transA" if position == 0 else "transB", 0)
            return contraction(seen[0] if (position == 0) == bool(flag) else seen[1])
        if op == "BatchNormalization":
            return scale if position in (1, 4) else shift
        if op in NORMS:
            return scale if position == 1 else shift
        if op in ("Gather", "GatherND") and position == 0:
            return contraction(seen[-2]) if rank >= 3 else ("uniform", -1.0, 1.0)
        if op == "Mul" or op == "Pow" or (op == "Div" and position == 1):
            return scale
        if op in ("Add", "Sub", "Where"):
            return shift
        return ("uniform", -1.0, 1.0)

    def index_bounds(self, name, seen):
        """The extents that integers of this name index, through views, concatenations and look-ups of the integers themselves."""
        bounds = []
        for index, position in self.consumers.get(name, []):
            node = self.graph.node[index]
            op = node.op_type
            data = self.shapes.get(node.input[0]) if node.input else None
            if position == 1 and op in ("Gather", "GatherElements", "ScatterElements"):
                bounds.append(data[self.attr(node, "axis", 0)] or 1)
            elif position == 1 and op in ("GatherND", "ScatterND"):
                start = self.attr(node, "batch_dims", 0)
                depth = self.shapes[node.input[1]][-1]
                bounds += [d or 1 for d in data[start : start + depth]]
            elif (position == 0 and (op in VIEWS or op == "Gather")) or op == "Concat":
                for out in node.output:
                    if out not in seen:
                        seen.add(out)
                        bounds += self.index_bounds(out, seen)
        return bounds

    def distribution(self, name, shape, elem_type, is_data):
        if elem_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, BF16):
            return ("uniform", -1.0, 1.0) if is_data else self.float_distribution(name, shape)
        bounds = self.index_bounds(name, {name})
        if bounds:
            return ("integers", 0, min(bounds))
        if elem_type == onnx.TensorProto.BOOL and not is_data and shape and shape[-1] >= 32:
            return ("integers", 0, 2)
        return ("integers", 1, 2)


def metadata(model):
    return {p.key: p.value for p in model.metadata_props}


def feeds(model, seed, inputs_dir, dims):
    """Every graph input that has no initializer, drawn by the rule (or read from --inputs when a file of its name is there)."""
    graph = Graph(model)
    inits = {i.name for i in model.graph.initializer}
    listed = metadata(model).get("data_inputs")
    data = None if listed is None else {n.strip() for n in listed.split(",")}
    out = {}
    for value in model.graph.input:
        if value.name in inits:
            continue
        tensor = value.type.tensor_type
        shape = [extent(d, dims, axis) for axis, d in enumerate(tensor.shape.dim)]
        dist = graph.distribution(value.name, shape, tensor.elem_type, data is None or value.name in data)
        array = draw(seed, value.name, shape, dist)
        given = inputs_dir and Path(inputs_dir) / f"{sanitise(value.name)}.npy"
        if given and given.exists():
            array = np.load(given)
        if tensor.elem_type == BF16:
            array = array.astype(onnx.helper.tensor_dtype_to_np_dtype(BF16))
        out[value.name] = array.astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return out


def extent(dim, dims, axis):
    """A dimension's value; named ones come from --dim, or are 1 in leading axes and 128 elsewhere."""
    if dim.HasField("dim_value"):
        return dim.dim_value
    return int(dims.get(dim.dim_param, 1 if axis == 0 else 128))


def sanitise(name):
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def run(model, inputs, every_value):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    names = [o.name for o in model.graph.output]
    if every_value:
        known = set(names)
        inferred = onnx.shape_inference.infer_shapes(model)
        types = {v.name: v for v in inferred.graph.value_info}
        for node in model.graph.node:
            for out in node.output:
                if out and out not in known and out in types:
                    model.graph.output.append(types[out])
                    names.append(out)
    if os.cpu_count():
        options.intra_op_num_threads = os.cpu_count()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, inputs)))


def relative_error(ours, reference):
    reference, ours = np.asarray(reference, np.float64), np.asarray(ours, np.float64)
    if reference.shape != ours.shape:
        raise ValueError(f"shape {list(ours.shape)}, expected {list(reference.shape)}")
    if not np.isfinite(reference).all():
        raise ValueError("the reference is not finite")
    if reference.size == 0:
        return 0.0
    largest = np.abs(reference).max()
    error = np.abs(ours - reference).max()
    if not np.isfinite(error):
        return float("inf")
    return float(error / largest) if largest > 0 else float(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="the ONNX file")
    parser.add_argument("--seed", type=int, default=0, help="the seed of weights and inputs (default 0)")
    parser.add_argument("--ours", metavar="DIR", help="folder with our outputs, one .npy per output")
    parser.add_argument("--inputs", metavar="DIR", help="folder with .npy files that replace drawn inputs of the same name")
    parser.add_argument("--write", metavar="DIR", help="write onnxruntime's outputs there")
    parser.add_argument("--write-inputs", metavar="DIR", help="write the drawn data inputs there")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest accepted relative error (default 1e-3)")
    parser.add_argument("--dim", metavar="NAME=VALUE", action="append", default=[], help="value of a named dimension")
    parser.add_argument("--stats", action="store_true", help="print mean and deviation of every intermediate value")
    args = parser.parse_args()
    model = onnx.load(args.file)
    dims = dict(d.split("=", 1) for d in args.dim)
    inputs = feeds(model, args.seed, args.inputs, dims)
    outputs = [o.name for o in model.graph.output]
    reference = run(model, inputs, args.stats)
    if args.write_inputs:
        Path(args.write_inputs).mkdir(parents=True, exist_ok=True)
        listed = metadata(model).get("data_inputs")
        for name in [n.strip() for n in listed.split(",")] if listed else inputs:
            np.save(Path(args.write_inputs) / f"{sanitise(name)}.npy", inputs[name])
    if args.stats:
        for name, value in reference.items():
            value = np.asarray(value, np.float64)
            print(f"{name:40} {str(list(value.shape)):24} mean {value.mean():+.3e} deviation {value.std():.3e} largest {np.abs(value).max():.3e}")
    if args.write:
        Path(args.write).mkdir(parents=True, exist_ok=True)
        for name in outputs:
            value = np.asarray(reference[name])
            np.save(Path(args.write) / f"{sanitise(name)}.npy", value.astype(np.float32) if value.dtype.kind in "fV" else value)
    if not args.ours:
        return 0
    worst = 0.0
    for name in outputs:
        path = Path(args.ours) / f"{sanitise(name)}.npy"
        try:
            error = relative_error(np.load(path), reference[name])
            print(f"{name}: relative error {error:.3e}")
        except (OSError, ValueError) as problem:
            error = float("inf")
            print(f"{name}: {problem}")
        worst = max(worst, error)
    verdict = "within" if worst <= args.tolerance else "above"
    print(f"largest relative error {worst:.3e}, {verdict} the tolerance {args.tolerance:g}")
    return 0 if worst <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
