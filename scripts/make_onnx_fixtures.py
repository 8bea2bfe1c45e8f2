#!/usr/bin/env python3
"""Writes the small ONNX files of models/tests/data and onnxruntime's outputs for them (run scripts/setup_onnx.sh first).

operators.onnx: one small node chain per operator that import covers beyond the shared graphs.
dynamic.onnx: named dimensions with the shape arithmetic that exporters emit.
NAME.golden: for each output a little-endian u32 count and that many float32 values; seed 1, dimensions as below.
"""

import struct
import sys
from pathlib import Path

import compare_onnx  # noqa: F401  (also puts .deps/onnx on the path)
import numpy as np
import onnx
from onnx import TensorProto, helper

DATA = Path(__file__).resolve().parent.parent / "models" / "tests" / "data"
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Builder:
    def __init__(self):
        self.nodes, self.inits, self.inputs, self.outputs, self.count = [], [], [], [], 0

    def input(self, name, shape, dtype=F):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def const(self, array, dtype=None):
        array = np.asarray(array, dtype=dtype)
        name = f"const{len(self.inits)}"
        self.inits.append(onnx.numpy_helper.from_array(array, name))
        return name

    def ints(self, *values):
        return self.const(list(values), np.int64)

    def node(self, op, *inputs, results=1, **attributes):
        names = [f"{op.lower()}{self.count}" + ("" if i == 0 else f"_{i}") for i in range(results)]
        self.count += 1
        self.nodes.append(helper.make_node(op, [i or "" for i in inputs], names, **attributes))
        return names[0] if results == 1 else names

    def out(self, *names, dtype=F):
        self.outputs += [helper.make_tensor_value_info(n, dtype, None) for n in names]

    def save(self, name, opset, dims=None):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.inits)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        onnx.save(model, DATA / f"{name}.onnx")
        golden(model, name, dims or {})


def golden(model, name, dims):
    inferred = onnx.shape_inference.infer_shapes(model)
    inputs = compare_onnx.feeds(inferred, 1, None, dims)
    values = compare_onnx.run(model, inputs, False)
    with open(DATA / f"{name}.golden", "wb") as file:
        for output in model.graph.output:
            value = np.asarray(values[output.name], np.float32).ravel()
            file.write(struct.pack("<I", value.size) + value.tobytes())


def operators():
    b = Builder()
    x, m, v = b.input("x", [2, 3, 6, 5]), b.input("m", [4, 6]), b.input("v", [6])
    s = b.input("s", [2, 4, 9])
    for op in ["Softplus", "Mish", "Elu", "Selu", "Celu", "Softsign", "Sign", "HardSigmoid", "HardSwish", "LeakyRelu", "ThresholdedRelu", "Sqrt", "Exp", "Ceil", "Abs"]:
        arg = b.node("Abs", m) if op == "Sqrt" else m
        extra = {"alpha": 0.3} if op in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid") else {}
        b.out(b.node(op, arg, **extra))
    b.out(b.node("Gelu", m, approximate="tanh"), b.node("Gelu", m))
    b.out(b.node("PRelu", m, b.const([0.25] * 6, np.float32)))
    b.out(b.node("Clip", m, b.node("ReduceMin", v, keepdims=0), b.const(0.5, np.float32)))
    b.out(b.node("Pow", m, b.const(3.0, np.float32)), b.node("Pow", m, b.const(2, np.int64)))
    b.out(b.node("Max", m, v, b.const(0.1, np.float32)), b.node("Mean", m, v), b.node("Sum", m, v, v))
    b.out(b.node("Gemm", m, b.node("Transpose", m), b.const([1.0, 2, 3, 4], np.float32), alpha=0.5, beta=2.0))
    b.out(b.node("Gemm", m, m, transA=1), b.node("MatMul", m, v), b.node("MatMul", v, b.node("Transpose", m)), b.node("MatMul", v, v))
    w1 = b.const(np.linspace(-1, 1, 6 * 4 * 3).reshape(6, 4, 3), np.float32)
    b.out(b.node("Conv", s, w1, b.const(np.arange(6) / 10, np.float32), pads=[2, 1], strides=[2]))
    w2 = b.const(np.linspace(-1, 1, 6 * 1 * 3 * 2).reshape(6, 1, 3, 2), np.float32)
    b.out(b.node("Conv", x, w2, group=3, auto_pad="SAME_UPPER", strides=[2, 2]))
    b.out(b.node("Conv", x, w2, group=3, dilations=[2, 1], pads=[1, 0, 2, 1]))
    b.out(b.node("MaxPool", x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=1))
    b.out(b.node("MaxPool", s, kernel_shape=[3], strides=[2]))
    b.out(b.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1]))
    b.out(b.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1))
    b.out(b.node("GlobalAveragePool", x), b.node("GlobalMaxPool", x))
    g, h = b.const([0.5, 1.0, 1.5], np.float32), b.const([0.1, 0.2, -0.3], np.float32)
    b.out(b.node("InstanceNormalization", x, g, h), b.node("BatchNormalization", x, g, h, h, g))
    b.out(b.node("InstanceNormalization", b.node("Slice", s, b.ints(0), b.ints(3), b.ints(1)), g, h))
    b.out(b.node("LayerNormalization", m, b.const(np.arange(6) / 3, np.float32)), b.node("LogSoftmax", m, axis=0), b.node("Softmax", x, axis=1))
    for op in ["ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd", "ReduceMax"]:
        b.out(b.node(op, x, b.ints(1, -1), keepdims=0))
    b.out(b.node("ReduceSum", x, keepdims=0), b.node("ReduceMean", x, b.ints(2), keepdims=1))
    b.out(b.node("CumSum", m, b.const(1, np.int64)))
    b.out(*[t for t in [b.node("ArgMax", m, axis=1, keepdims=0), b.node("ArgMin", m, axis=0)]], dtype=I)
    top = b.node("TopK", m, b.ints(1), results=2, axis=1)
    b.out(top[0])
    b.out(top[1], dtype=I)
    b.out(b.node("Flatten", x, axis=2), b.node("Squeeze", b.node("Unsqueeze", m, b.ints(0, 3)), b.ints(0)), b.node("Reshape", x, b.ints(0, -1, 5)))
    b.out(b.node("Slice", m, b.ints(-1), b.ints(-100), b.ints(1), b.ints(-2)), b.node("Slice", x, b.ints(1, 0), b.ints(5, -1), b.ints(2, 3), b.ints(2, 1)))
    b.out(*b.node("Split", m, b.ints(2, 1, 3), results=3, axis=1), *b.node("Split", v, results=4, num_outputs=4))
    b.out(b.node("Gather", m, b.const(-1, np.int64), axis=1), b.node("Gather", m, b.const([[0, 3], [-1, 1]], np.int64)))
    b.out(b.node("GatherND", x, b.const([[0, -1], [1, 0]], np.int64)))
    b.out(b.node("Tile", m, b.ints(2, 3)), b.node("Expand", v, b.ints(3, 1, 6)), b.node("Concat", m, m, axis=0))
    for mode in ["constant", "edge", "reflect"]:
        b.out(b.node("Pad", m, b.ints(1, 2, 3, 0), mode=mode))
    b.out(b.node("Pad", x, b.ints(1, 2), b.const(7.0, np.float32), b.ints(-1)))
    b.out(b.node("Trilu", m, upper=0), b.node("Trilu", m, b.const(2, np.int64)))
    b.out(b.node("OneHot", b.const([0, 2, -1], np.int64), b.const(4, np.int64), b.const([-0.5, 2.0], np.float32)))
    d = b.node("Reshape", x, b.ints(1, 12, 3, 5))
    b.out(b.node("DepthToSpace", d, blocksize=2), b.node("DepthToSpace", d, blocksize=2, mode="CRD"))
    b.out(b.node("SpaceToDepth", b.node("DepthToSpace", d, blocksize=2), blocksize=2))
    scales = b.const([1, 1, 2, 3], np.float32)
    b.out(b.node("Resize", x, "", scales), b.node("Resize", x, "", scales, mode="linear"))
    b.out(b.node("Resize", x, "", scales, mode="linear", coordinate_transformation_mode="align_corners"))
    b.out(b.node("Resize", x, "", "", b.ints(2, 3, 4, 9), mode="cubic"))
    b.out(b.node("Resize", x, "", "", b.ints(2, 3, 4, 7), coordinate_transformation_mode="asymmetric", nearest_mode="floor"))
    c = b.node("Less", m, v)
    e = b.node("Not", b.node("Or", c, b.node("Equal", m, m)))
    b.out(c, e, b.node("Xor", c, e), b.node("And", c, b.node("GreaterOrEqual", m, v)), b.node("IsNaN", m), dtype=B)
    b.out(b.node("Where", c, m, v), b.node("Cast", c, to=F))
    n = b.node("Cast", b.node("Mul", m, b.const(9.0, np.float32)), to=I)
    b.out(n, b.node("Div", n, b.ints(4)), b.node("Mod", n, b.ints(4)), dtype=I)
    b.save("operators", 20)


def dynamic():
    b = Builder()
    x = b.input("x", ["batch", "seq", 8])
    ids = b.input("ids", ["batch", "seq"], I)
    shape = b.node("Shape", x)
    batch = b.node("Gather", shape, b.const(0, np.int64))
    seq = b.node("Gather", shape, b.const(1, np.int64))
    one = b.ints(0)
    heads = b.node("Concat", b.node("Unsqueeze", batch, one), b.node("Unsqueeze", seq, one), b.ints(2), b.ints(-1), axis=0)
    split = b.node("Transpose", b.node("Reshape", x, heads), perm=[0, 2, 1, 3])
    scores = b.node("MatMul", split, b.node("Transpose", split, perm=[0, 1, 3, 2]))
    # The causal mask as exporters write it: ConstantOfShape, Trilu, Where, Expand with a −1 pattern.
    square = b.node("Concat", b.node("Unsqueeze", seq, one), b.node("Unsqueeze", seq, one), axis=0)
    full = b.node("ConstantOfShape", square, value=helper.make_tensor("v", F, [1], [-1e4]))
    mask = b.node("Trilu", full, b.const(1, np.int64))
    target = b.node("Concat", b.node("Unsqueeze", batch, one), b.ints(1), b.ints(-1), b.node("Unsqueeze", seq, one), axis=0)
    ones = b.node("ConstantOfShape", b.node("Shape", target), value=helper.make_tensor("v", I, [1], [1]))
    target = b.node("Where", b.node("Equal", target, b.ints(-1)), ones, target)
    mask = b.node("Expand", b.node("Unsqueeze", mask, b.ints(0, 1)), target)
    soft = b.node("Softmax", b.node("Add", scores, mask), axis=-1)
    context = b.node("Transpose", b.node("MatMul", soft, split), perm=[0, 2, 1, 3])
    flat = b.node("Concat", b.node("Slice", shape, b.ints(0), b.ints(2)), b.ints(-1), axis=0)
    joined = b.node("Reshape", context, flat)
    positions = b.node("Cast", b.node("Range", b.const(0, np.int64), seq, b.const(1, np.int64)), to=F)
    joined = b.node("Add", joined, b.node("Unsqueeze", positions, b.ints(1)))
    table = b.const(np.arange(40).reshape(5, 8) / 7, np.float32)
    joined = b.node("Add", joined, b.node("Gather", table, ids))
    b.out(joined)
    half = b.node("Slice", joined, b.ints(-1), b.const([np.iinfo(np.int64).max]), b.ints(1))
    b.out(half, b.node("Flatten", joined, axis=2), b.node("Tile", half, b.ints(1, 2, 1)))
    b.save("dynamic", 17, {"batch": 3, "seq": 5})


if __name__ == "__main__":
    operators()
    dynamic()
    if len(sys.argv) > 1:
        golden(onnx.load(sys.argv[1]), Path(sys.argv[1]).stem, {})
