#!/bin/sh
# Compiles bottleneck.c and prints its tables as Markdown.
#   run.sh [all|block|conversions|shapes|matmul|check] [rounds]
# CC and CFLAGS may be given; the instruction set is AVX2 with FMA (the code has 8-lane vectors
# and 16 registers in mind). Compiling takes about a minute: some 200 kernels are instantiated.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
${CC:-gcc} ${CFLAGS:--O3 -mavx2 -mfma} -Wall -Wextra -o "$dir/bottleneck" "$here/bottleneck.c" -lm
"$dir/bottleneck" "${1:-all}" "${2:-25}"
