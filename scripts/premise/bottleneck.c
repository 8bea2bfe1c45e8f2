// A test of the premise behind layout selection, in plain C with GCC vector extensions.
//
// It measures a ResNet bottleneck (1x1, 3x3, 1x1, residual add, relu) under several activation
// layouts, with the elementwise operators fused into the convolutions and not, and compares each
// measured block with the sum of its kernels measured one by one. It also measures single
// convolutions of other shapes, layout conversions, and matmuls with transposed operands.
//
// Layouts are named by a block size: NCHW, NHWC, or NCHW<b>c with b = 8 or 16.
// All weights are packed ahead of time for the kernel that reads them.
// Times are CPU times of the one thread; every comparison is made in interleaved rounds.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef float v8 __attribute__((vector_size(32)));
typedef float v8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef int i8 __attribute__((vector_size(32)));
#define AI static inline __attribute__((always_inline))
#define LD(p) (*(const v8u *)(p))
#define ST(p, v) (*(v8u *)(p) = (v))
#define UNROLL _Pragma("GCC unroll 64")
// Keeps the loads of one step of the reduction from being moved into another, or merged with
// another's: without it GCC hoists and shares them across unrolled steps and spills accumulators.
#ifdef NO_FENCE
#define FENCE()
#else
#define FENCE() __asm__ volatile("" ::: "memory")
#endif

AI int imin(int a, int b) { return a < b ? a : b; }
AI int imax(int a, int b) { return a > b ? a : b; }
AI v8 splat(float f) { return (v8){f, f, f, f, f, f, f, f}; }
AI v8 relu(v8 v) { return (v8)((i8)v & (v > 0)); }

enum { NCHW = 0, NHWC = -1 }; // a positive layout is the block size of NCHW<b>c
enum { EPI_NONE, EPI_BIAS_RELU, EPI_BIAS_ADD_RELU };

typedef struct {
  const float *x, *w, *bias, *res;
  float *y, *scratch;
} Arg;
typedef void (*Fn)(const Arg *);

// ---------------------------------------------------------------------------------------------
// Broadcast kernel: vector lanes are output channels, `tw` output columns by `nv` vectors are kept
// in registers, inputs are broadcast. Serves NHWC and blocked outputs, and inputs of any layout.

typedef struct { // a convolution; `oh`,`ow` follow from the rest
  int ic, oc, h, w, k, s, p;
} Conv;
AI int out_h(Conv c) { return (c.h + 2 * c.p - c.k) / c.s + 1; }
AI int out_w(Conv c) { return (c.w + 2 * c.p - c.k) / c.s + 1; }

typedef struct {
  long col, row, ch, blk; // element strides: column, row, channel inside a block, channel block
  int b;                  // channels of a block
} Strides;
AI Strides strides(int layout, int ch, int h, int w) {
  if (layout == NCHW) return (Strides){1, w, (long)h * w, 0, ch};
  if (layout == NHWC) return (Strides){ch, (long)w * ch, 1, 0, ch};
  return (Strides){layout, (long)w * layout, 1, (long)h * w * layout, layout};
}

// One register tile. `left`/`right` say that columns may fall into the padding (the tile starts at
// output column 0, or ends at the last one); which ones is known at compile time, so the clipped
// multiply-adds are simply not emitted. Rows in the padding are skipped by the range [kh0, kh1).
AI void tile_b(Conv c, int tw, int nv, int left, int right, int epi, const float *x, Strides xs,
               const float *w, int kh0, int kh1, const float *bias, const float *res, float *y,
               Strides ys) {
  v8 a[16];
  const int ow = out_w(c), nb = (c.ic + xs.b - 1) / xs.b;
  UNROLL for (int t = 0; t < tw; t++)
    UNROLL for (int v = 0; v < nv; v++) a[t * nv + v] = epi ? (v8)LD(bias + 8 * v) : splat(0);
  for (int ib = 0; ib < nb; ib++) {
    const int n = nb * xs.b == c.ic ? xs.b : imin(xs.b, c.ic - ib * xs.b);
    for (int kh = kh0; kh < kh1; kh++) {
      const float *xr = x + ib * xs.blk + kh * xs.row;
      const float *wr = w + ((long)ib * xs.b * c.k * c.k + (long)kh * c.k * n) * nv * 8;
      UNROLL for (int kw = 0; kw < c.k; kw++) {
        const float *xk = xr + kw * xs.col, *wk = wr + (long)kw * n * nv * 8;
        for (int i = 0; i < n; i++) {
          v8 b[4];
          FENCE();
          UNROLL for (int v = 0; v < nv; v++) b[v] = LD(wk + (i * nv + v) * 8);
          UNROLL for (int t = 0; t < tw; t++) {
            if (left && t * c.s + kw < c.p) continue;
            if (right && (ow - tw + t) * c.s + kw - c.p >= c.w) continue;
            v8 q = splat(xk[t * c.s * xs.col + i * xs.ch]);
            UNROLL for (int v = 0; v < nv; v++) a[t * nv + v] += q * b[v];
          }
        }
      }
    }
  }
  UNROLL for (int t = 0; t < tw; t++)
    UNROLL for (int v = 0; v < nv; v++) {
      long o = t * ys.col + (v * 8 / ys.b) * ys.blk + (v * 8 % ys.b);
      v8 r = a[t * nv + v];
      if (epi == EPI_BIAS_ADD_RELU) r += LD(res + o);
      ST(y + o, epi ? relu(r) : r);
    }
}

// `tw` columns are the main tile, `tr` the tile that fills the remainder of a row: a*tw + b*tr = ow.
// `rb` rows are finished for one channel tile before the next channel tile is begun.
// `pad_copy` (not from NCHW): copy the input into a zero-padded scratch buffer instead of clipping.
AI void conv_b(const Arg *g, Conv c, int lin, int lout, int epi, int tw, int tr, int nv, int rb,
               int pad_copy) {
  const int oh = out_h(c), ow = out_w(c), ot = nv * 8;
  int nr = 0;
  while ((ow - nr * tr) % tw) nr++;
  const int nt = (ow - nr * tr) / tw;
  const float *x = g->x;
  Strides xs = strides(lin, c.ic, c.h, c.w);
  if (pad_copy) {
    const int hp = c.h + 2 * c.p, wp = c.w + 2 * c.p, nb = (c.ic + xs.b - 1) / xs.b;
    Strides ps = strides(lin, c.ic, hp, wp);
    for (int b = 0; b < nb; b++)
      for (int i = 0; i < hp; i++) {
        float *d = g->scratch + b * ps.blk + i * ps.row;
        int r = i - c.p;
        if (r < 0 || r >= c.h) { memset(d, 0, 4 * ps.row); continue; }
        memset(d, 0, 4 * c.p * ps.col);
        memcpy(d + c.p * ps.col, x + b * xs.blk + r * xs.row, 4 * xs.row);
        memset(d + (c.p + c.w) * ps.col, 0, 4 * c.p * ps.col);
      }
    x = g->scratch, xs = ps, c.h = hp, c.w = wp, c.p = 0;
  }
  const Strides ys = strides(lout, c.oc, oh, ow);
  for (int r0 = 0; r0 < oh; r0 += rb)
    for (int o = 0; o < c.oc; o += ot)
      for (int r = r0; r < imin(oh, r0 + rb); r++) {
        const int ih = r * c.s - c.p, kh0 = imax(0, -ih), kh1 = imin(c.k, c.h - ih);
        const float *w = g->w + (long)o * c.ic * c.k * c.k, *bias = g->bias + o;
        const long yo = r * ys.row + (o / ys.b) * ys.blk + o % ys.b;
#define TILE(n, l, rt, q)                                                                          \
  tile_b(c, n, nv, l, rt, epi, x + ih * xs.row + ((q) * c.s - c.p) * xs.col, xs, w, kh0, kh1, bias, \
         g->res + yo + (q) * ys.col, g->y + yo + (q) * ys.col, ys)
        if (c.p == 0) {
          int q = 0;
          for (int t = 0; t < nt; t++, q += tw) TILE(tw, 0, 0, q);
          for (int t = 0; t < nr; t++, q += tr) TILE(tr, 0, 0, q);
        } else { // remainder tiles, if any, stand at the right end
          int q = tw;
          if (nt == 1 && nr == 0) { TILE(tw, 1, 1, 0); continue; }
          TILE(tw, 1, 0, 0);
          for (int t = 1; t < nt - (nr == 0); t++, q += tw) TILE(tw, 0, 0, q);
          for (int t = 0; t < nr - 1; t++, q += tr) TILE(tr, 0, 0, q);
          if (nr) TILE(tr, 0, 1, q);
          else TILE(tw, 0, 1, q);
        }
#undef TILE
      }
}

// ---------------------------------------------------------------------------------------------
// NCHW kernel: vector lanes are output columns, `to` output channels by `tv` vectors in registers,
// weights are broadcast. Rows are copied into a scratch strip that has the padding, splits the
// columns by phase for stride 2, and lets tail vectors of neighbouring rows share a tile.

typedef struct { int rows, width, phases; long ch; } Strip;
AI Strip strip_of(Conv c, int rb) {
  const int vw = (out_w(c) + 7) / 8, width = vw * 8 + (c.k > 1 ? 8 : 0);
  const int rows = (rb - 1) * c.s + c.k;
  // An odd number of cache lines between channels spreads them over all sets of the L1.
  const long lines = ((long)rows * c.s * width + 15) / 16;
  return (Strip){rows, width, c.s, 16 * (lines | 1)};
}
// A pointwise strip is packed tile by tile instead, so that a tile's reads are contiguous.
AI int tiled(Conv c, int tv, int rb) {
  return c.k == 1 && c.s == 1 && rb == 1 && (tv <= 2 || (out_w(c) + 7) / 8 % tv == 0);
}

AI void store_n(float *y, v8 v, int n) {
  if (n >= 8) ST(y, v);
  else for (int i = 0; i < n; i++) y[i] = v[i];
}

// `vs`/`yv`: distance between the tile's vectors in the strip and in the output;
// `n0`,`n1`: valid columns of the vectors before the last, and of the last.
AI void tile_n(Conv c, int to, int tv, int epi, const float *xs, Strip sp, long xr, long vs,
               const float *w, const float *bias, const float *res, float *y, long yc, long yv,
               int n0, int n1) {
  v8 a[16];
  UNROLL for (int o = 0; o < to; o++)
    UNROLL for (int v = 0; v < tv; v++) a[o * tv + v] = splat(epi ? bias[o] : 0);
  for (int i = 0; i < c.ic; i++) {
    const float *xi = xs + i * sp.ch, *wi = w + (long)i * c.k * c.k * to;
    for (int kh = 0; kh < c.k; kh++)
      UNROLL for (int kw = 0; kw < c.k; kw++) {
        const float *xk = xi + kh * xr + (kw % c.s) * sp.width + kw / c.s;
        const float *wk = wi + (kh * c.k + kw) * to;
        v8 b[8];
        FENCE();
        UNROLL for (int v = 0; v < tv; v++) b[v] = LD(xk + v * vs);
        UNROLL for (int o = 0; o < to; o++) {
          v8 q = splat(wk[o]);
          UNROLL for (int v = 0; v < tv; v++) a[o * tv + v] += q * b[v];
        }
      }
  }
  UNROLL for (int o = 0; o < to; o++)
    UNROLL for (int v = 0; v < tv; v++) {
      const int n = v == tv - 1 ? n1 : n0;
      v8 r = a[o * tv + v];
      if (epi == EPI_BIAS_ADD_RELU) {
        const float *q = res + o * yc + v * yv;
        if (n >= 8) r += LD(q);
        else for (int i = 0; i < n; i++) r[i] += q[i];
      }
      store_n(y + o * yc + v * yv, epi ? relu(r) : r, n);
    }
}

AI void rows_n(const Arg *g, Conv c, int epi, int to, int tv, int o, int r0, int rb, int by_tile,
               Strip sp) {
  const int ow = out_w(c), vw = (ow + 7) / 8, tail = vw % tv, part = ow % 8 ? ow % 8 : 8;
  const long yc = (long)out_h(c) * ow, xr = (long)sp.phases * sp.width, ro = xr * c.s;
  const float *w = g->w + (long)o * c.ic * c.k * c.k, *xs = g->scratch, *bias = g->bias + o;
  if (by_tile) {
    const Strip st = {1, tv * 8, 1, tv * 8};
    for (int v = 0; v < vw; v += tv) {
      const int last = v + tv >= vw, full = v + tv <= vw;
      const long yo = o * yc + (long)r0 * ow + v * 8;
      tile_n(c, to, tv, epi, xs + (long)v * 8 * c.ic, st, tv * 8, 8, w, bias, g->res + yo, g->y + yo, yc, 8,
             last && !full ? part : 8, !last ? 8 : full ? part : 0);
    }
    return;
  }
#define TILE(n, r, v, vs, yv, n0, n1)                                                             \
  tile_n(c, to, n, epi, xs + (r) * ro + (v) * 8, sp, xr, vs, w, bias,                              \
         g->res + o * yc + (long)(r0 + (r)) * ow + (v) * 8,                                       \
         g->y + o * yc + (long)(r0 + (r)) * ow + (v) * 8, yc, yv, n0, n1)
  for (int r = 0; r < rb; r++)
    for (int v = 0; v + tv <= vw; v += tv) TILE(tv, r, v, 8, 8, 8, v + tv == vw ? part : 8);
  if (tail) // the vectors left over at the right end, taken down the rows
    for (int v = vw - tail; v < vw; v++) {
      const int n = v == vw - 1 ? part : 8;
      int r = 0;
      for (; r + tv <= rb; r += tv) TILE(tv, r, v, ro, ow, n, n);
      for (; r < rb; r++) TILE(1, r, v, ro, ow, n, n);
    }
#undef TILE
}

AI void conv_n(const Arg *g, Conv c, int epi, int to, int tv, int rb) {
  const int oh = out_h(c), orem = c.oc % to;
  const Strip sp = strip_of(c, rb);
  const int by_tile = tiled(c, tv, rb);
  for (int r0 = 0; r0 < oh; r0 += rb) {
    const int nr = oh % rb ? imin(rb, oh - r0) : rb;
    if (by_tile) {
      for (int i = 0; i < c.ic; i++) {
        const float *x = g->x + ((long)i * c.h + r0) * c.w;
        int j = 0;
        for (; j + 8 <= c.w; j += 8) ST(g->scratch + (long)(j / (tv * 8) * c.ic + i) * tv * 8 + j % (tv * 8), LD(x + j));
        for (; j < c.w; j++) g->scratch[(long)(j / (tv * 8) * c.ic + i) * tv * 8 + j % (tv * 8)] = x[j];
      }
    } else for (int i = 0; i < c.ic; i++)
      for (int q = 0; q < (nr - 1) * c.s + c.k; q++) {
        const int ih = r0 * c.s + q - c.p;
        float *d = g->scratch + i * sp.ch + (long)q * sp.phases * sp.width;
        if (ih < 0 || ih >= c.h) { memset(d, 0, 4l * sp.phases * sp.width); continue; }
        const float *x = g->x + ((long)i * c.h + ih) * c.w;
        if (c.s == 1) {
          for (int j = 0; j < c.p; j++) d[j] = 0;
          memcpy(d + c.p, x, 4 * c.w);
          for (int j = c.p + c.w; j < sp.width; j++) d[j] = 0;
        } else {
          for (int f = 0; f < sp.phases; f++)
            for (int j = 0; j < sp.width; j++) {
              const int iw = j * c.s + f - c.p;
              d[f * sp.width + j] = iw >= 0 && iw < c.w ? x[iw] : 0;
            }
        }
      }
    int o = 0;
    for (; o + to <= c.oc; o += to) rows_n(g, c, epi, to, tv, o, r0, nr, by_tile, sp);
    if (orem) rows_n(g, c, epi, orem, tv, o, r0, nr, by_tile, sp);
  }
}

// ---------------------------------------------------------------------------------------------
// Depthwise 3x3 convolutions (stride 1, pad 1), bias and relu fused.

AI void dw_tile(int tw, int left, int right, const float *x, Strides s, const float *wt,
                int kh0, int kh1, const float *bias, float *y) {
  v8 a[16];
  UNROLL for (int t = 0; t < tw; t++) a[t] = LD(bias);
  for (int kh = kh0; kh < kh1; kh++)
    UNROLL for (int kw = 0; kw < 3; kw++) {
      v8 k = LD(wt + (kh * 3 + kw) * 8);
      UNROLL for (int t = 0; t < tw; t++) {
        if ((left && t + kw < 1) || (right && t + kw > tw)) continue;
        a[t] += k * LD(x + kh * s.row + (t + kw) * s.col);
      }
    }
  UNROLL for (int t = 0; t < tw; t++) ST(y + t * s.col, relu(a[t]));
}
AI void dw_b(const Arg *g, int ch, int h, int w, int layout, int tw) { // w % tw == 0, w > tw
  const Strides s = strides(layout, ch, h, w);
  const int nb = (ch + s.b - 1) / s.b;
  for (int b = 0; b < nb; b++)
    for (int r = 0; r < h; r++)
      for (int q = 0; q < w; q += tw)
        for (int v = 0; v < s.b && b * s.b + v < ch; v += 8) {
          const int cc = b * s.b + v, k0 = imax(0, 1 - r), k1 = imin(3, h + 1 - r);
          const float *x = g->x + b * s.blk + v + (r - 1) * s.row + (q - 1) * s.col;
          const float *wt = g->w + (long)cc * 9;
          float *y = g->y + b * s.blk + v + r * s.row + q * s.col;
          if (q == 0) dw_tile(tw, 1, 0, x, s, wt, k0, k1, g->bias + cc, y);
          else if (q + tw == w) dw_tile(tw, 0, 1, x, s, wt, k0, k1, g->bias + cc, y);
          else dw_tile(tw, 0, 0, x, s, wt, k0, k1, g->bias + cc, y);
        }
}

AI void dw_n(const Arg *g, int ch, int h, int w, int tv) {
  const int vw = (w + 7) / 8, wp = vw * 8 + 8, part = w % 8 ? w % 8 : 8;
  for (int c = 0; c < ch; c++) {
    float *s = g->scratch;
    for (int i = 0; i < h + 2; i++, s += wp) {
      if (i == 0 || i == h + 1) { memset(s, 0, 4 * wp); continue; }
      s[0] = 0;
      memcpy(s + 1, g->x + ((long)c * h + i - 1) * w, 4 * w);
      for (int j = w + 1; j < wp; j++) s[j] = 0;
    }
    const float *wt = g->w + (long)c * 9;
    for (int r = 0; r < h; r++)
      for (int v = 0; v < vw; v += tv) {
        v8 a[8];
        UNROLL for (int t = 0; t < tv; t++) a[t] = splat(g->bias[c]);
        UNROLL for (int kh = 0; kh < 3; kh++)
          UNROLL for (int kw = 0; kw < 3; kw++) {
            v8 k = splat(wt[kh * 3 + kw]);
            UNROLL for (int t = 0; t < tv; t++)
              a[t] += k * LD(g->scratch + (r + kh) * wp + kw + (v + t) * 8);
          }
        UNROLL for (int t = 0; t < tv; t++)
          store_n(g->y + ((long)c * h + r) * w + (v + t) * 8, relu(a[t]), v + t == vw - 1 ? part : 8);
      }
  }
}

// ---------------------------------------------------------------------------------------------
// Unfused elementwise passes: one operator each, destination apart from the source.

AI void pass_bias(const Arg *g, int ch, long hw, int layout) {
  if (layout == NCHW) {
    for (int c = 0; c < ch; c++)
      for (long i = 0; i < hw; i += 8) ST(g->y + c * hw + i, LD(g->x + c * hw + i) + splat(g->bias[c]));
  } else {
    const int b = layout == NHWC ? ch : layout;
    for (int c = 0; c < ch; c += b)
      for (long i = 0; i < hw; i++)
        for (int v = 0; v < b; v += 8)
          ST(g->y + c * hw + i * b + v, LD(g->x + c * hw + i * b + v) + LD(g->bias + c + v));
  }
}
AI void pass_relu(const Arg *g, long n) {
  for (long i = 0; i < n; i += 8) ST(g->y + i, relu(LD(g->x + i)));
}
AI void pass_add(const Arg *g, long n) {
  for (long i = 0; i < n; i += 8) ST(g->y + i, LD(g->x + i) + LD(g->res + i));
}

// ---------------------------------------------------------------------------------------------
// Conversions through 8x8 register transposes (NCHW <-> the rest) or block copies (the rest).

AI void transpose8(const float *s, long ss, float *d, long ds) {
  v8 r[8], t[8];
  UNROLL for (int i = 0; i < 8; i++) r[i] = LD(s + i * ss);
  UNROLL for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shuffle(r[i], r[i + 1], (i8){0, 8, 1, 9, 4, 12, 5, 13});
    t[i + 1] = __builtin_shuffle(r[i], r[i + 1], (i8){2, 10, 3, 11, 6, 14, 7, 15});
  }
  UNROLL for (int i = 0; i < 8; i += 4)
    UNROLL for (int j = 0; j < 2; j++) {
      r[i + 2 * j] = __builtin_shuffle(t[i + j], t[i + 2 + j], (i8){0, 1, 8, 9, 4, 5, 12, 13});
      r[i + 2 * j + 1] = __builtin_shuffle(t[i + j], t[i + 2 + j], (i8){2, 3, 10, 11, 6, 7, 14, 15});
    }
  UNROLL for (int i = 0; i < 4; i++) {
    ST(d + i * ds, __builtin_shuffle(r[i], r[i + 4], (i8){0, 1, 2, 3, 8, 9, 10, 11}));
    ST(d + (i + 4) * ds, __builtin_shuffle(r[i], r[i + 4], (i8){4, 5, 6, 7, 12, 13, 14, 15}));
  }
}
AI void convert(const Arg *g, int ch, long hw, int from, int to) { // ch % 16 == 0, hw % 8 == 0
  const int other = from == NCHW ? to : from, b = other == NHWC ? ch : other;
  if (from == NCHW || to == NCHW) {
    // Sixteen channels of eight positions: whole cache lines on the channel side.
    const int cs = imin(b, 16);
    for (int c = 0; c < ch; c += cs)
      for (long i = 0; i < hw; i += 8)
        for (int u = c; u < c + cs; u += 8) {
          const long n = u * hw + i, o = (u / b) * hw * b + i * b + u % b;
          if (from == NCHW) transpose8(g->x + n, hw, g->y + o, b);
          else transpose8(g->x + o, b, g->y + n, hw);
        }
    return;
  }
  const int bf = from == NHWC ? ch : from, bt = to == NHWC ? ch : to, m = imin(bf, bt);
  if (m == bt) // write in order
    for (int c = 0; c < ch; c += m)
      for (long i = 0; i < hw; i++)
        for (int v = 0; v < m; v += 8)
          ST(g->y + c * hw + i * m + v, LD(g->x + (c / bf) * hw * bf + i * bf + c % bf + v));
  else
    for (long i = 0; i < hw; i++)
      for (int c = 0; c < ch; c += m)
        for (int v = 0; v < m; v += 8)
          ST(g->y + (c / bt) * hw * bt + i * bt + c % bt + v, LD(g->x + c * hw + i * m + v));
}
AI void convert_naive(const Arg *g, int ch, long hw, int from, int to) {
  const int bf = from == NHWC ? ch : from, bt = to == NHWC ? ch : to;
  if (from == NCHW)
    for (int c = 0; c < ch; c += bt)
      for (long i = 0; i < hw; i++)
        for (int v = 0; v < bt; v++) g->y[c * hw + i * bt + v] = g->x[(c + v) * hw + i];
  else
    for (int c = 0; c < ch; c++)
      for (long i = 0; i < hw; i++) g->y[c * hw + i] = g->x[(c / bf) * hw * bf + i * bf + c % bf];
}

// ---------------------------------------------------------------------------------------------
// Matmul y[m][n] = sum_k x * w, activations and the second operand unpacked.

AI void mm_nn(const Arg *g, int m, int n, int k, int ta) { // w is [k][n]; x is [m][k] or [k][m]
  const long xm = ta ? 1 : k, xk = ta ? m : 1;
  for (int j = 0; j < n; j += 16)
    for (int i = 0; i < m;) {
#define BODY(tm)                                                                                  \
  {                                                                                               \
    v8 a[12];                                                                                     \
    UNROLL for (int t = 0; t < 2 * tm; t++) a[t] = splat(0);                                      \
    for (int q = 0; q < k; q++) {                                                                 \
      v8 b0 = LD(g->w + (long)q * n + j), b1 = LD(g->w + (long)q * n + j + 8);                    \
      UNROLL for (int t = 0; t < tm; t++) {                                                       \
        v8 s = splat(g->x[(i + t) * xm + q * xk]);                                                \
        a[2 * t] += s * b0;                                                                       \
        a[2 * t + 1] += s * b1;                                                                   \
      }                                                                                           \
    }                                                                                             \
    UNROLL for (int t = 0; t < tm; t++) {                                                         \
      ST(g->y + (long)(i + t) * n + j, a[2 * t]);                                                 \
      ST(g->y + (long)(i + t) * n + j + 8, a[2 * t + 1]);                                         \
    }                                                                                             \
    i += tm;                                                                                      \
  }
      if ((m - i) % 6 == 0) BODY(6)
      else if (m - i >= 4) BODY(4)
      else BODY(1)
#undef BODY
    }
}
AI float hsum(v8 v) { return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])); }
AI void mm_nt(const Arg *g, int m, int n, int k) { // w is [n][k]: lanes run along k
  for (int j = 0; j < n; j += 4)
    for (int i = 0; i < m;) {
#define BODY(tm)                                                                                  \
  {                                                                                               \
    v8 a[12];                                                                                     \
    UNROLL for (int t = 0; t < 4 * tm; t++) a[t] = splat(0);                                      \
    for (int q = 0; q < k; q += 8) {                                                              \
      v8 s[3];                                                                                    \
      UNROLL for (int t = 0; t < tm; t++) s[t] = LD(g->x + (long)(i + t) * k + q);                \
      UNROLL for (int u = 0; u < 4; u++) {                                                        \
        v8 b = LD(g->w + (long)(j + u) * k + q);                                                  \
        UNROLL for (int t = 0; t < tm; t++) a[4 * t + u] += s[t] * b;                             \
      }                                                                                           \
    }                                                                                             \
    UNROLL for (int t = 0; t < 4 * tm; t++) g->y[(long)(i + t / 4) * n + j + t % 4] = hsum(a[t]); \
    i += tm;                                                                                      \
  }
      if (m - i >= 3) BODY(3)
      else BODY(1)
#undef BODY
    }
}

// ---------------------------------------------------------------------------------------------
// Kernel tables.

typedef struct {
  const char *name;
  Conv c;
  int dw; // depthwise
} Shape;
typedef struct {
  const char *tag;
  int shape, lin, lout, wt; // wt: output channels of one packed weight tile
  Fn fn;
} Kernel;

// The three convolutions of the bottleneck come first.
#define S0 ((Conv){256, 64, 56, 56, 1, 1, 0})
#define S1 ((Conv){64, 64, 56, 56, 3, 1, 1})
#define S2 ((Conv){64, 256, 56, 56, 1, 1, 0})
#define S3 ((Conv){3, 64, 224, 224, 7, 2, 3})
#define S4 ((Conv){256, 256, 14, 14, 3, 1, 1})
#define S5 ((Conv){512, 512, 7, 7, 3, 1, 1})
#define S6 ((Conv){1024, 256, 14, 14, 1, 1, 0})
#define S7 ((Conv){24, 144, 56, 56, 1, 1, 0})
#define S8 ((Conv){144, 24, 56, 56, 1, 1, 0})
#define S9 ((Conv){64, 3, 112, 112, 3, 1, 1})
#define S10 ((Conv){64, 64, 56, 56, 3, 1, 1})
#define S11 ((Conv){144, 144, 56, 56, 3, 1, 1})
#define S12 ((Conv){256, 512, 56, 56, 1, 2, 0})
static const Shape shapes[] = {
    {"1x1 256->64 56x56", S0, 0},   {"3x3 64->64 56x56", S1, 0},   {"1x1 64->256 56x56", S2, 0},
    {"7x7/2 3->64 224x224", S3, 0}, {"3x3 256->256 14x14", S4, 0}, {"3x3 512->512 7x7", S5, 0},
    {"1x1 1024->256 14x14", S6, 0}, {"1x1 24->144 56x56", S7, 0},  {"1x1 144->24 56x56", S8, 0},
    {"3x3 64->3 112x112", S9, 0},   {"dw 3x3 64 56x56", S10, 1},    {"dw 3x3 144 56x56", S11, 1},
    {"1x1/2 256->512 56x56", S12, 0},
};
enum { NSHAPE = sizeof shapes / sizeof *shapes };

// The same pointwise convolution with the image cut into other rows: to NCHW it is one long row.
#define FLAT(c) ((Conv){(c).ic, (c).oc, 49, 64, 1, 1, 0})
#define FLAT112(c) ((Conv){(c).ic, (c).oc, 28, 112, 1, 1, 0})
#define FLAT14(c) ((Conv){(c).ic, (c).oc, 1, 196, 1, 1, 0})

// B: broadcast kernel (shape, in, out, tw, tr, nv, rb, pad_copy); N: NCHW kernel (shape, conv, to,
// tv, rb); D, E: depthwise, broadcast-free blocked or NHWC (layout, tw) and NCHW (tv).
#define KERNELS_BOTTLENECK(B, N)                                                                  \
  N(0, FLAT112(S0), 6, 2, 1) B(0, NHWC, NHWC, 6, 4, 2, 1, 0) B(0, 16, 16, 6, 4, 2, 4, 0)          \
  B(0, 8, 8, 12, 8, 1, 1, 0)                                                                      \
  N(1, S1, 5, 2, 4) B(1, NHWC, NHWC, 6, 4, 2, 1, 0) B(1, 16, 16, 6, 4, 2, 1, 0)                   \
  B(1, 8, 8, 6, 4, 2, 1, 0)                                                                       \
  N(2, FLAT112(S2), 6, 2, 1) B(2, NHWC, NHWC, 4, 4, 2, 1, 0) B(2, 16, 16, 4, 4, 2, 1, 0)          \
  B(2, 8, 8, 6, 4, 2, 1, 0)
#define KERNELS_OTHER(B, N, D, E)                                                                 \
  N(0, FLAT(S0), 4, 3, 1) N(0, FLAT(S0), 8, 1, 1) N(0, FLAT(S0), 12, 1, 1) N(0, FLAT(S0), 6, 2, 2) \
  B(0, NHWC, NHWC, 4, 4, 2, 1, 0) B(0, NHWC, NHWC, 3, 2, 4, 1, 0) B(0, NHWC, NHWC, 12, 8, 1, 1, 0) \
  B(0, NHWC, NHWC, 7, 7, 2, 1, 0) B(0, NHWC, NHWC, 6, 4, 2, 56, 0) B(0, NHWC, NHWC, 6, 4, 2, 4, 0) \
  B(0, 16, 16, 4, 4, 2, 1, 0) B(0, 16, 16, 3, 2, 4, 1, 0) B(0, 16, 16, 12, 8, 1, 1, 0)            \
  B(0, 16, 16, 7, 7, 2, 1, 0) B(0, 16, 16, 6, 4, 2, 56, 0) B(0, 16, 16, 6, 4, 2, 1, 0)            \
  B(0, 8, 8, 6, 4, 2, 1, 0) B(0, 8, 8, 14, 14, 1, 1, 0) B(0, NCHW, 16, 6, 4, 2, 1, 0)             \
  B(0, NCHW, NHWC, 6, 4, 2, 1, 0) B(0, 16, NHWC, 6, 4, 2, 1, 0)                                    \
  N(1, S1, 4, 3, 6) N(1, S1, 8, 1, 4) N(1, S1, 12, 1, 4) N(1, S1, 2, 7, 4) N(1, S1, 6, 2, 4)      \
  N(1, S1, 5, 2, 2) N(1, S1, 3, 4, 4)                                                             \
  B(1, NHWC, NHWC, 4, 4, 2, 1, 0) B(1, NHWC, NHWC, 3, 2, 4, 1, 0) B(1, NHWC, NHWC, 12, 8, 1, 1, 0) \
  B(1, NHWC, NHWC, 7, 7, 2, 1, 0) B(1, NHWC, NHWC, 6, 4, 2, 56, 0) B(1, NHWC, NHWC, 6, 4, 2, 4, 0) \
  B(1, NHWC, NHWC, 6, 4, 2, 4, 1)                                                                 \
  B(1, 16, 16, 4, 4, 2, 1, 0) B(1, 16, 16, 3, 2, 4, 1, 0) B(1, 16, 16, 12, 8, 1, 1, 0)            \
  B(1, 16, 16, 7, 7, 2, 1, 0) B(1, 16, 16, 6, 4, 2, 56, 0) B(1, 16, 16, 6, 4, 2, 4, 0)            \
  B(1, 16, 16, 6, 4, 2, 4, 1) B(1, 8, 8, 12, 8, 1, 1, 0) B(1, 8, 8, 14, 14, 1, 1, 0)               \
  B(1, NCHW, 16, 6, 4, 2, 1, 0) B(1, 16, NHWC, 6, 4, 2, 1, 0)      \
  N(1, S1, 4, 2, 4)                                 \
  N(2, FLAT(S2), 4, 3, 1) N(2, FLAT(S2), 8, 1, 1) N(2, FLAT(S2), 12, 1, 1)                        \
  B(2, NHWC, NHWC, 6, 4, 2, 1, 0) B(2, NHWC, NHWC, 3, 2, 4, 1, 0) B(2, NHWC, NHWC, 12, 8, 1, 1, 0) \
  B(2, NHWC, NHWC, 7, 7, 2, 1, 0) B(2, NHWC, NHWC, 6, 4, 2, 56, 0)                                \
  B(2, 16, 16, 6, 4, 2, 1, 0) B(2, 16, 16, 3, 2, 4, 1, 0) B(2, 16, 16, 12, 8, 1, 1, 0)            \
  B(2, 16, 16, 7, 7, 2, 1, 0) B(2, 16, 16, 6, 4, 2, 56, 0) B(2, 8, 8, 12, 8, 1, 1, 0)              \
  N(3, S3, 6, 2, 4) N(3, S3, 4, 3, 6) N(3, S3, 12, 1, 4)                                          \
  B(3, NHWC, NHWC, 6, 4, 2, 1, 0) B(3, NHWC, NHWC, 3, 2, 4, 1, 0) B(3, NHWC, NHWC, 6, 4, 2, 4, 1) \
  B(3, 16, 16, 6, 4, 2, 1, 0) B(3, 8, 8, 12, 8, 1, 1, 0)                                          \
  B(3, NCHW, 16, 6, 4, 2, 1, 0) B(3, NCHW, NHWC, 6, 4, 2, 1, 0) B(3, NCHW, 16, 3, 2, 4, 1, 0)     \
  N(4, S4, 6, 2, 14) N(4, S4, 5, 2, 14) N(4, S4, 12, 1, 14)                                        \
  B(4, NHWC, NHWC, 6, 4, 2, 14, 0) B(4, NHWC, NHWC, 6, 4, 2, 1, 0) B(4, NHWC, NHWC, 7, 7, 2, 14, 0) \
  B(4, NHWC, NHWC, 3, 2, 4, 14, 0)                                                                \
  B(4, 16, 16, 6, 4, 2, 14, 0) B(4, 16, 16, 6, 4, 2, 1, 0) B(4, 16, 16, 7, 7, 2, 14, 0)           \
  B(4, 16, 16, 3, 2, 4, 14, 0) B(4, 8, 8, 14, 14, 1, 14, 0) B(4, 8, 8, 6, 4, 2, 14, 0)            \
  N(5, S5, 6, 2, 7) N(5, S5, 12, 1, 7) N(5, S5, 5, 2, 7)                                          \
  B(5, NHWC, NHWC, 7, 7, 2, 7, 0) B(5, NHWC, NHWC, 4, 3, 2, 7, 0) B(5, NHWC, NHWC, 3, 2, 4, 7, 0) \
  B(5, 16, 16, 7, 7, 2, 7, 0) B(5, 16, 16, 4, 3, 2, 7, 0) B(5, 16, 16, 3, 2, 4, 7, 0)             \
  B(5, 8, 8, 7, 7, 1, 7, 0)                                                                       \
  N(6, FLAT14(S6), 6, 2, 1) N(6, FLAT14(S6), 4, 3, 1) N(6, FLAT14(S6), 12, 1, 1)                  \
  B(6, NHWC, NHWC, 6, 4, 2, 14, 0) B(6, NHWC, NHWC, 7, 7, 2, 14, 0) B(6, NHWC, NHWC, 3, 2, 4, 2, 0) \
  B(6, 16, 16, 6, 4, 2, 14, 0) B(6, 16, 16, 7, 7, 2, 14, 0) B(6, 16, 16, 3, 2, 4, 2, 0)           \
  B(6, 8, 8, 14, 14, 1, 14, 0)                                                                    \
  N(7, FLAT112(S7), 6, 2, 1) N(7, FLAT(S7), 4, 3, 1)                                                 \
  B(7, NHWC, NHWC, 6, 4, 2, 1, 0) B(7, NHWC, NHWC, 4, 4, 3, 1, 0)                                 \
  B(7, 16, 16, 6, 4, 2, 1, 0) B(7, 8, 8, 12, 8, 1, 1, 0) B(7, 8, 8, 4, 4, 3, 1, 0)                \
  N(8, FLAT112(S8), 6, 2, 1) N(8, FLAT(S8), 4, 3, 1)                                                 \
  B(8, NHWC, NHWC, 12, 8, 1, 1, 0) B(8, NHWC, NHWC, 4, 4, 3, 1, 0)                                \
  B(8, 16, 16, 6, 4, 2, 1, 0) B(8, 8, 8, 12, 8, 1, 1, 0) B(8, 8, 8, 4, 4, 3, 1, 0)                \
  N(9, S9, 3, 4, 4) N(9, S9, 3, 2, 4) N(9, S9, 3, 4, 8)                                           \
  B(9, NHWC, NHWC, 12, 4, 1, 1, 0) B(9, NHWC, NHWC, 8, 8, 1, 1, 0) B(9, NHWC, NHWC, 14, 14, 1, 1, 0) \
  B(9, 16, 16, 6, 4, 2, 1, 0) B(9, 8, 8, 12, 4, 1, 1, 0)        \
  E(10, 64, 7) E(10, 64, 1) D(10, 64, NHWC, 7) D(10, 64, NHWC, 14) D(10, 64, NHWC, 4)             \
  D(10, 64, 16, 7) D(10, 64, 16, 4) D(10, 64, 8, 7) D(10, 64, 8, 14)                              \
  E(11, 144, 7) D(11, 144, NHWC, 7) D(11, 144, NHWC, 4) D(11, 144, 16, 7) D(11, 144, 8, 7)        \
  N(12, S12, 6, 2, 4) N(12, S12, 5, 2, 4) B(12, NHWC, NHWC, 6, 4, 2, 1, 0)                         \
  B(12, NHWC, NHWC, 3, 2, 4, 4, 0) B(12, 16, 16, 6, 4, 2, 1, 0) B(12, 16, 16, 3, 2, 4, 4, 0)      \
  B(12, 16, 16, 6, 4, 2, 4, 0) B(12, NHWC, NHWC, 6, 4, 2, 4, 0) B(12, 8, 8, 6, 4, 2, 4, 0)

#define B_NAME(s, li, lo, tw, tr, nv, rb, pc, e) b_##s##_##li##_##lo##_##tw##_##tr##_##nv##_##rb##_##pc##_##e
#define B_DEF(s, li, lo, tw, tr, nv, rb, pc, e)                                                   \
  static __attribute__((noinline)) void B_NAME(s, li, lo, tw, tr, nv, rb, pc, e)(const Arg *g) {   \
    conv_b(g, S##s, li, lo, e, tw, tr, nv, rb, pc);                                               \
  }
#define B_ROW(s, li, lo, tw, tr, nv, rb, pc, e)                                                   \
  {"tw" #tw "/" #tr " nv" #nv " rb" #rb " pc" #pc, s, li, lo, 8 * nv, B_NAME(s, li, lo, tw, tr, nv, rb, pc, e)},
#define N_NAME(s, to, tv, rb, e) n_##s##_##to##_##tv##_##rb##_##e
#define N_DEF(s, c, to, tv, rb, e)                                                                \
  static __attribute__((noinline)) void N_NAME(s, to, tv, rb, e)(const Arg *g) { conv_n(g, c, e, to, tv, rb); }
#define N_ROW(s, c, to, tv, rb, e) {"to" #to " tv" #tv " rb" #rb, s, NCHW, NCHW, to, N_NAME(s, to, tv, rb, e)},
#define D_DEF(s, ch, l, tw)                                                                       \
  static __attribute__((noinline)) void d_##s##_##l##_##tw(const Arg *g) { dw_b(g, ch, 56, 56, l, tw); }
#define D_ROW(s, ch, l, tw) {"tw" #tw, s, l, l, 8, d_##s##_##l##_##tw},
#define E_DEF(s, ch, tv)                                                                          \
  static __attribute__((noinline)) void e_##s##_##tv(const Arg *g) { dw_n(g, ch, 56, 56, tv); }
#define E_ROW(s, ch, tv) {"tv" #tv, s, NCHW, NCHW, 1, e_##s##_##tv},

#define B1_DEF(s, ...) B_DEF(s, __VA_ARGS__, EPI_BIAS_RELU)
#define B1_ROW(s, ...) B_ROW(s, __VA_ARGS__, EPI_BIAS_RELU)
#define N1_DEF(s, ...) N_DEF(s, __VA_ARGS__, EPI_BIAS_RELU)
#define N1_ROW(s, ...) N_ROW(s, __VA_ARGS__, EPI_BIAS_RELU)
#define B0_DEF(s, ...) B_DEF(s, __VA_ARGS__, EPI_NONE)
#define B0_ROW(s, ...) B_ROW(s, __VA_ARGS__, EPI_NONE)
#define N0_DEF(s, ...) N_DEF(s, __VA_ARGS__, EPI_NONE)
#define N0_ROW(s, ...) N_ROW(s, __VA_ARGS__, EPI_NONE)
#define B2_DEF(s, ...) B_DEF(s, __VA_ARGS__, EPI_BIAS_ADD_RELU)
#define B2_ROW(s, ...) B_ROW(s, __VA_ARGS__, EPI_BIAS_ADD_RELU)
#define N2_DEF(s, ...) N_DEF(s, __VA_ARGS__, EPI_BIAS_ADD_RELU)
#define N2_ROW(s, ...) N_ROW(s, __VA_ARGS__, EPI_BIAS_ADD_RELU)

KERNELS_BOTTLENECK(B0_DEF, N0_DEF)
KERNELS_BOTTLENECK(B1_DEF, N1_DEF)
KERNELS_BOTTLENECK(B2_DEF, N2_DEF)
KERNELS_OTHER(B1_DEF, N1_DEF, D_DEF, E_DEF)

// The bottleneck's kernels, [epilogue][convolution * 4 + layout index].
static const Kernel block_kernels[3][12] = {{KERNELS_BOTTLENECK(B0_ROW, N0_ROW)},
                                            {KERNELS_BOTTLENECK(B1_ROW, N1_ROW)},
                                            {KERNELS_BOTTLENECK(B2_ROW, N2_ROW)}};
static const Kernel kernels[] = {KERNELS_BOTTLENECK(B1_ROW, N1_ROW)
                                     KERNELS_OTHER(B1_ROW, N1_ROW, D_ROW, E_ROW)};
enum { NKERNEL = sizeof kernels / sizeof *kernels };

#define PASSES(X) X(0, NCHW) X(1, NHWC) X(2, 16) X(3, 8)
#define HW 3136
#define P_DEF(i, l)                                                                               \
  static __attribute__((noinline)) void bias64_##l(const Arg *g) { pass_bias(g, 64, HW, l); }     \
  static __attribute__((noinline)) void bias256_##l(const Arg *g) { pass_bias(g, 256, HW, l); }
#define P_ROW(i, l) {bias64_##l, bias256_##l},
PASSES(P_DEF)
static const Fn bias_fns[4][2] = {PASSES(P_ROW)};
static __attribute__((noinline)) void relu64(const Arg *g) { pass_relu(g, 64l * HW); }
static __attribute__((noinline)) void relu256(const Arg *g) { pass_relu(g, 256l * HW); }
static __attribute__((noinline)) void add256(const Arg *g) { pass_add(g, 256l * HW); }

#define CVT_DEF(a, b)                                                                             \
  static __attribute__((noinline)) void c64_##a##_##b(const Arg *g) { convert(g, 64, HW, a, b); } \
  static __attribute__((noinline)) void c256_##a##_##b(const Arg *g) { convert(g, 256, HW, a, b); }
#define CVT(X) X(NCHW, NHWC) X(NHWC, NCHW) X(NCHW, 16) X(16, NCHW) X(NHWC, 16) X(16, NHWC)        \
  X(NCHW, 8) X(8, NCHW) X(NHWC, 8) X(8, NHWC)
CVT(CVT_DEF)
#define CVT_ROW(a, b) {a, b, c64_##a##_##b, c256_##a##_##b},
static const struct { int from, to; Fn f64, f256; } cvts[] = {CVT(CVT_ROW)};
enum { NCVT = sizeof cvts / sizeof *cvts };
static __attribute__((noinline)) void naive_in(const Arg *g) { convert_naive(g, 64, HW, NCHW, NHWC); }
static __attribute__((noinline)) void naive_out(const Arg *g) { convert_naive(g, 64, HW, NHWC, NCHW); }
static __attribute__((noinline)) void copy64(const Arg *g) { memcpy(g->y, g->x, 4l * 64 * HW); }

#define MM(X) X(128, 768, 768) X(128, 128, 64) X(128, 64, 128) X(1, 768, 768) X(1, 2048, 2048)
#define MM_DEF(m, n, k)                                                                           \
  static __attribute__((noinline)) void nn_##m##_##n##_##k(const Arg *g) { mm_nn(g, m, n, k, 0); } \
  static __attribute__((noinline)) void tn_##m##_##n##_##k(const Arg *g) { mm_nn(g, m, n, k, 1); } \
  static __attribute__((noinline)) void nt_##m##_##n##_##k(const Arg *g) { mm_nt(g, m, n, k); }
#define MM_ROW(m, n, k) {m, n, k, {nn_##m##_##n##_##k, nt_##m##_##n##_##k, tn_##m##_##n##_##k}},
MM(MM_DEF)
static const struct { int m, n, k; Fn f[3]; } mms[] = {MM(MM_ROW)};
enum { NMM = sizeof mms / sizeof *mms };

// ---------------------------------------------------------------------------------------------
// Measuring.

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

enum { RING = 24 << 20 }; // floats; 96 MiB for reads and as much for writes, thrice the L3
static float *ring_r, *ring_w, *scratch;
static long pos_r, pos_w;
static float *ring_take(float *ring, long *pos, long n) {
  n = ((n + 15) & ~15l) + 16 * 5; // the odd lines keep the slots from one address pattern
  if (*pos + n > RING) *pos = 0;
  float *p = ring + *pos;
  *pos += n;
  return p;
}

enum { ROUNDS_MAX = 101 };
typedef struct { double t[ROUNDS_MAX]; int n; } Samples;
static int cmp_d(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static void add_sample(Samples *s, double t) { s->t[s->n++] = t; }
static double minimum(const Samples *s) {
  double m = s->t[0];
  for (int i = 1; i < s->n; i++) m = fmin(m, s->t[i]);
  return m;
}
static double median(const Samples *s) {
  double c[ROUNDS_MAX];
  memcpy(c, s->t, sizeof(double) * s->n);
  qsort(c, s->n, sizeof *c, cmp_d);
  return s->n % 2 ? c[s->n / 2] : (c[s->n / 2 - 1] + c[s->n / 2]) / 2;
}

typedef struct { // one kernel measured in isolation
  const char *name;
  Fn fn;
  long nx, nw, nres, ny;
  Samples cold, warm;
} Unit;

static void time_unit(Unit *u) {
  Arg g = {ring_take(ring_r, &pos_r, u->nx), ring_take(ring_r, &pos_r, u->nw),
           ring_take(ring_r, &pos_r, 4096),  ring_take(ring_r, &pos_r, u->nres),
           ring_take(ring_w, &pos_w, u->ny), scratch};
  double a = now();
  u->fn(&g);
  double b = now();
  u->fn(&g);
  double c = now();
  add_sample(&u->cold, b - a);
  add_sample(&u->warm, c - b);
}

#define CHAIN(n)                                                                                   \
  static __attribute__((noinline)) float chain##n(long k) {                                        \
    v8 a[n], m = splat(0.5f), q = splat(0.25f);                                                    \
    UNROLL for (int i = 0; i < n; i++) a[i] = splat(i);                                            \
    for (long i = 0; i < k; i++) {                                                                 \
      UNROLL for (int j = 0; j < n; j++) a[j] = a[j] * m + q;                                      \
      __asm__ volatile("" : "+x"(m), "+x"(q));                                                     \
    }                                                                                              \
    v8 s = a[0];                                                                                   \
    UNROLL for (int i = 1; i < n; i++) s += a[i];                                                  \
    return s[0];                                                                                   \
  }
CHAIN(8) CHAIN(10) CHAIN(12) CHAIN(14)
static double peak_gflops; // fixed once, before everything
static volatile float sink;
static double measure_peak(void) { // the best of several numbers of independent chains
  static float (*const f[4])(long) = {chain8, chain10, chain12, chain14};
  double best = 0;
  for (int i = 0; i < 800; i++) {
    double a = now();
    sink = f[i % 4](5000);
    best = fmax(best, 5000.0 * (8 + i % 4 * 2) * 16 / (now() - a) * 1e-6);
  }
  return best;
}

// ---------------------------------------------------------------------------------------------
// Packing, reference and checks.

static uint64_t rng = 88172645463325252ull;
static float rnd(void) {
  rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
  return (float)(int32_t)(rng >> 32) * (1.0f / 4294967296.0f);
}
static float *alloc(long n) {
  float *p = aligned_alloc(64, ((n * 4 + 63) & ~63l) + 4096);
  if (!p) { fprintf(stderr, "out of memory\n"); exit(1); }
  memset(p, 0, n * 4);
  return p;
}
static float *alloc_rnd(long n) {
  float *p = alloc(n);
  for (long i = 0; i < n; i++) p[i] = rnd();
  return p;
}
static long physical(int layout, int ch, long hw) {
  return layout > 0 ? (ch + layout - 1) / layout * layout * hw : ch * hw;
}
static long place(int layout, int ch, long hw, int c, long i) {
  if (layout == NCHW) return c * hw + i;
  if (layout == NHWC) return i * ch + c;
  return c / layout * layout * hw + i * layout + c % layout;
}
static void arrange(const float *nchw, float *d, int layout, int ch, long hw) {
  for (int c = 0; c < ch; c++)
    for (long i = 0; i < hw; i++) d[place(layout, ch, hw, c, i)] = nchw[c * hw + i];
}
// [oc][ic][k][k] to tiles of `wt` output channels; inside a tile block of input channels, row and
// column of the window, input channel (or channel, row, column for the NCHW kernel), output channel.
static long packed_size(Conv c, int dw, int wt) {
  if (dw) return (long)c.oc * 9;
  return (long)(c.oc + wt - 1) / wt * wt * c.ic * c.k * c.k;
}
static void pack(const float *w, float *d, Conv c, int dw, const Kernel *k) {
  const int kk = c.k * c.k;
  if (dw) {
    for (int o = 0; o < c.oc; o++)
      for (int q = 0; q < kk; q++) d[o / k->wt * k->wt * kk + q * k->wt + o % k->wt] = w[o * kk + q];
    return;
  }
  const int n = k->lin > 0 ? k->lin : c.ic;
  for (int o = 0; o < c.oc; o++)
    for (int i = 0; i < c.ic; i++)
      for (int q = 0; q < kk; q++) {
        const int lane = o % k->wt, m = imin(n, c.ic - i / n * n);
        long r;
        int width = k->wt;
        if (k->lout == NCHW) {
          r = (long)i * kk + q;
          width = imin(width, c.oc - o / k->wt * k->wt);
        } else r = (long)(i / n) * n * kk + q * m + i % n;
        d[(long)(o / k->wt) * k->wt * c.ic * kk + r * width + lane] = w[((long)o * c.ic + i) * kk + q];
      }
}
static double *reference(Conv c, int dw, const float *x, const float *w) {
  const int oh = out_h(c), ow = out_w(c);
  double *y = calloc((size_t)c.oc * oh * ow, sizeof *y);
  for (int o = 0; o < c.oc; o++)
    for (int i = dw ? o : 0; i < (dw ? o + 1 : c.ic); i++)
      for (int kh = 0; kh < c.k; kh++)
        for (int kw = 0; kw < c.k; kw++) {
          const double q = w[dw ? (o * c.k + kh) * c.k + kw : (((long)o * c.ic + i) * c.k + kh) * c.k + kw];
          for (int r = 0; r < oh; r++) {
            const int ih = r * c.s + kh - c.p;
            if (ih < 0 || ih >= c.h) continue;
            for (int t = 0; t < ow; t++) {
              const int iw = t * c.s + kw - c.p;
              if (iw >= 0 && iw < c.w) y[((long)o * oh + r) * ow + t] += q * x[((long)i * c.h + ih) * c.w + iw];
            }
          }
        }
  return y;
}
static void finish(double *y, int oc, long hw, const float *bias, const double *res) {
  for (int o = 0; o < oc; o++)
    for (long i = 0; i < hw; i++) {
      double v = y[o * hw + i] + bias[o] + (res ? res[o * hw + i] : 0);
      y[o * hw + i] = v > 0 ? v : 0;
    }
}
static double relative_error(const double *ref, const float *y, int layout, int ch, long hw) {
  double e = 0, m = 0;
  for (int c = 0; c < ch; c++)
    for (long i = 0; i < hw; i++) {
      const double d = fabs(ref[c * hw + i] - y[place(layout, ch, hw, c, i)]);
      if (!(d <= e)) e = d; // keeps a NaN
      m = fmax(m, fabs(ref[c * hw + i]));
    }
  return e / m;
}
static double worst_error;
static void expect_close(double e, const char *what, const char *tag) {
  if (!(e <= worst_error)) worst_error = e;
  if (!(e < 1e-4)) { printf("WRONG: %s %s relative error %g\n", what, tag, e); exit(1); }
}
static const char *layout_name(int l) {
  return l == NCHW ? "NCHW" : l == NHWC ? "NHWC" : l == 16 ? "NCHW16c" : "NCHW8c";
}

static void check_kernels(void) {
  for (int s = 0; s < NSHAPE; s++) {
    const Conv c = shapes[s].c;
    const int dw = shapes[s].dw, oh = out_h(c), ow = out_w(c);
    const long hw = (long)c.h * c.w, ohw = (long)oh * ow;
    float *x = alloc_rnd(c.ic * hw), *w = alloc_rnd((long)c.oc * c.ic * c.k * c.k), *bias = alloc(c.oc + 64);
    for (int o = 0; o < c.oc; o++) bias[o] = rnd();
    double *ref = reference(c, dw, x, w);
    finish(ref, c.oc, ohw, bias, 0);
    for (int k = 0; k < NKERNEL; k++) {
      const Kernel *q = kernels + k;
      if (q->shape != s) continue;
      float *xl = alloc(physical(q->lin, c.ic, hw)), *y = alloc(physical(q->lout, c.oc, ohw));
      float *wp = alloc(packed_size(c, dw, q->wt));
      arrange(x, xl, q->lin, c.ic, hw);
      pack(w, wp, c, dw, q);
      for (long i = 0; i < 8l << 20; i++) scratch[i] = NAN;
      q->fn(&(Arg){xl, wp, bias, 0, y, scratch});
      expect_close(relative_error(ref, y, q->lout, c.oc, ohw), shapes[s].name, q->tag);
      free(xl), free(y), free(wp);
    }
    free(x), free(w), free(bias), free(ref);
  }
  float *x = alloc_rnd(64l * HW), *a = alloc(64l * HW), *y = alloc(64l * HW);
  double *ref = calloc(64 * HW, sizeof *ref);
  for (long i = 0; i < 64l * HW; i++) ref[i] = x[i];
  for (int k = 0; k < NCVT; k++) {
    arrange(x, a, cvts[k].from, 64, HW);
    cvts[k].f64(&(Arg){.x = a, .y = y});
    expect_close(relative_error(ref, y, cvts[k].to, 64, HW), "conversion to", layout_name(cvts[k].to));
  }
  free(x), free(a), free(y), free(ref);
  for (int k = 0; k < NMM; k++) {
    const int m = mms[k].m, n = mms[k].n, kk = mms[k].k;
    float *x = alloc_rnd(m * kk), *w = alloc_rnd(n * kk), *y = alloc(m * n);
    for (int v = 0; v < 3; v++) {
      double *ref = calloc(m * n, sizeof *ref);
      for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
          for (int q = 0; q < kk; q++)
            ref[i * n + j] += (double)x[v == 2 ? q * m + i : i * kk + q] * w[v == 1 ? j * kk + q : q * n + j];
      mms[k].f[v](&(Arg){.x = x, .w = w, .y = y});
      expect_close(relative_error(ref, y, NCHW, m, n), "matmul", "nn\0nt\0tn" + 3 * v);
      free(ref);
    }
    free(x), free(w), free(y);
  }
}

// ---------------------------------------------------------------------------------------------
// The block: a plan is a layout per convolution and whether elementwise operators are fused.

static Unit units[128];
static int nunit;
static int unit(const char *name, Fn fn, long nx, long nw, long nres, long ny) {
  for (int i = 0; i < nunit; i++)
    if (units[i].fn == fn) return i;
  units[nunit] = (Unit){name, fn, nx, nw, nres, ny, {{0}, 0}, {{0}, 0}};
  return nunit++;
}

static const int lay[4] = {NCHW, NHWC, 16, 8};
enum { X_IN, X_1, X_3, BUF_A, BUF_B, BUF_C, Y_L, Y_OUT, NBUF };
typedef struct { Fn fn; int x, res, y, conv, nv, unit; } Step; // conv: -1, or the bias/weights used
typedef struct {
  int l[3], fused, conv, nstep, ok;
  Step s[24];
  Samples cold, warm;
} Plan;
static float *bufs[NBUF], *weights_of[3][4], *biases[3];
static const Conv block[3] = {S0, S1, S2};

static void step(Plan *p, Step s) { p->s[p->nstep++] = s; }
static void convert_step(Plan *p, int ch, int from, int to, int x, int y) {
  for (int i = 0; i < NCVT; i++)
    if (cvts[i].from == from && cvts[i].to == to) {
      Fn f = ch == 64 ? cvts[i].f64 : cvts[i].f256;
      step(p, (Step){f, x, x, y, -1, 0, unit("convert", f, (long)ch * HW, 0, 0, (long)ch * HW)});
      return;
    }
  p->ok = 0;
}
// `ends`: convert from and to NCHW at the ends (else the block's input and output are as it likes).
static Plan make_plan(int l1, int l2, int l3, int fused, int ends) {
  Plan p = {{l1, l2, l3}, fused, ends, 0, 1, {{0}}, {{0}, 0}, {{0}, 0}};
  int x1 = X_IN, x3 = X_IN, cur, free_a = BUF_A, free_b = BUF_B;
  if (ends && lay[l1] != NCHW) convert_step(&p, 256, NCHW, lay[l1], X_IN, x1 = X_1);
  if (ends && lay[l3] != NCHW) {
    if (l3 == l1) x3 = X_1;
    else convert_step(&p, 256, NCHW, lay[l3], X_IN, x3 = X_3);
  }
  cur = x1;
  const int yl = ends && lay[l3] != NCHW ? Y_L : Y_OUT;
#define SWAP() do { int t = free_a; free_a = free_b; free_b = t; } while (0)
  for (int i = 0; i < 3; i++) {
    const int l = p.l[i], epi = !fused ? EPI_NONE : i < 2 ? EPI_BIAS_RELU : EPI_BIAS_ADD_RELU;
    const Kernel *k = &block_kernels[epi][i * 4 + l];
    const Conv c = block[i];
    const int ch = c.oc;
    const long n = (long)ch * HW;
    if (i && l != p.l[i - 1]) {
      convert_step(&p, 64, lay[p.l[i - 1]], lay[l], cur, free_a);
      cur = free_a;
      SWAP();
    }
    int u = unit("conv", k->fn, (long)c.ic * HW, packed_size(c, 0, k->wt), epi == 2 ? n : 0, n);
    int y = i == 2 && fused ? yl : free_a;
    step(&p, (Step){k->fn, cur, x3, y, i, l, u});
    cur = y;
    SWAP();
    if (fused) continue;
    Fn f = bias_fns[l][i == 2];
    step(&p, (Step){f, cur, cur, free_a, i, -1, unit("bias", f, n, 0, 0, n)});
    cur = free_a;
    SWAP();
    if (i == 2) {
      step(&p, (Step){add256, cur, x3, free_a, -1, 0, unit("add", add256, n, 0, n, n)});
      cur = free_a;
      SWAP();
    }
    f = i == 2 ? relu256 : relu64;
    y = i == 2 ? yl : free_a;
    step(&p, (Step){f, cur, cur, y, -1, 0, unit("relu", f, n, 0, 0, n)});
    cur = y;
    SWAP();
  }
  if (yl == Y_L) convert_step(&p, 256, lay[l3], NCHW, Y_L, Y_OUT);
  return p;
}
static void run_plan(const Plan *p, float *const *b, float *const (*w)[4], float *const *bias) {
  for (int i = 0; i < p->nstep; i++) {
    const Step *s = p->s + i;
    s->fn(&(Arg){b[s->x], s->conv < 0 || s->nv < 0 ? 0 : w[s->conv][s->nv],
                 s->conv < 0 ? 0 : bias[s->conv], b[s->res], b[s->y], scratch});
  }
}
static void time_plan(Plan *p) {
  // cold: input, weights and output rotate beyond the last-level cache, intermediates stay put.
  float *b[NBUF], *w[3][4] = {{0}}, *bias[3];
  memcpy(b, bufs, sizeof b);
  b[X_IN] = ring_take(ring_r, &pos_r, 256l * HW);
  b[Y_OUT] = ring_take(ring_w, &pos_w, 256l * HW);
  for (int i = 0; i < 3; i++) {
    w[i][p->l[i]] = ring_take(ring_r, &pos_r, packed_size(block[i], 0, block_kernels[0][i * 4 + p->l[i]].wt));
    bias[i] = ring_take(ring_r, &pos_r, 256);
  }
  double a = now();
  run_plan(p, b, w, bias);
  double c = now();
  add_sample(&p->cold, c - a);
  run_plan(p, bufs, weights_of, biases);
  a = now();
  run_plan(p, bufs, weights_of, biases);
  add_sample(&p->warm, now() - a);
}
static double predicted(const Plan *p, int warm, double (*stat)(const Samples *)) {
  double t = 0;
  for (int i = 0; i < p->nstep; i++) t += stat(warm ? &units[p->s[i].unit].warm : &units[p->s[i].unit].cold);
  return t;
}

static float *logical_w[3], *logical_x;
static double *block_ref;
static void setup_block(void) {
  for (int i = 0; i < NBUF; i++) bufs[i] = alloc_rnd(256l * HW);
  logical_x = alloc_rnd(256l * HW);
  double *t = 0;
  float *f = alloc(256l * HW);
  memcpy(f, logical_x, 4l * 256 * HW);
  double *xd = calloc(256l * HW, sizeof *xd);
  for (long i = 0; i < 256l * HW; i++) xd[i] = logical_x[i];
  for (int i = 0; i < 3; i++) {
    const Conv c = block[i];
    logical_w[i] = alloc_rnd((long)c.oc * c.ic * c.k * c.k);
    biases[i] = alloc_rnd(c.oc);
    for (int l = 0; l < 4; l++) {
      const Kernel *k = &block_kernels[0][i * 4 + l];
      weights_of[i][l] = alloc(packed_size(c, 0, k->wt));
      pack(logical_w[i], weights_of[i][l], c, 0, k);
    }
    t = reference(c, 0, f, logical_w[i]);
    finish(t, c.oc, HW, biases[i], i == 2 ? xd : 0);
    for (long q = 0; q < (long)c.oc * HW; q++) f[q] = t[q];
    if (i < 2) free(t);
  }
  block_ref = t;
  free(f), free(xd);
}
static void check_plan(Plan *p) {
  const int lin = p->conv ? NCHW : lay[p->l[0]], lout = p->conv ? NCHW : lay[p->l[2]];
  arrange(logical_x, bufs[X_IN], lin, 256, HW);
  memset(bufs[Y_OUT], 0xff, 4l * 256 * HW);
  run_plan(p, bufs, weights_of, biases);
  expect_close(relative_error(block_ref, bufs[Y_OUT], lout, 256, HW), "block", layout_name(lout));
}

static Plan plans[128];
static double m_of[128], p_of[128];
static int cmp_m(const void *a, const void *b) { return cmp_d(m_of + *(const int *)a, m_of + *(const int *)b); }
static int cmp_p(const void *a, const void *b) { return cmp_d(p_of + *(const int *)a, p_of + *(const int *)b); }

// Agreement of two orders of n plans, and what the plan preferred by the sum costs.
static void ranking(const char *what, int n) {
  int im[128], ip[128], rm[128], rp[128], agree = 0, clear = 0, clear_agree = 0, pairs = 0;
  for (int i = 0; i < n; i++) im[i] = ip[i] = i;
  qsort(im, n, sizeof *im, cmp_m), qsort(ip, n, sizeof *ip, cmp_p);
  for (int i = 0; i < n; i++) rm[im[i]] = i, rp[ip[i]] = i;
  double d2 = 0, lo = 1e9, hi = 0;
  for (int i = 0; i < n; i++) {
    d2 += (double)(rm[i] - rp[i]) * (rm[i] - rp[i]);
    lo = fmin(lo, p_of[i] / m_of[i]), hi = fmax(hi, p_of[i] / m_of[i]);
    for (int j = 0; j < i; j++) {
      const int same = (m_of[i] < m_of[j]) == (p_of[i] < p_of[j]);
      const int far = fabs(m_of[i] - m_of[j]) > 0.02 * fmin(m_of[i], m_of[j]);
      pairs++, agree += same, clear += far, clear_agree += far && same;
    }
  }
  printf("| %s | %d | %.2f .. %.2f | %.3f | %.1f%% | %.1f%% (%d) | %s | %.1f%% | %.2fx |\n", what, n, lo, hi,
         1 - 6 * d2 / ((double)n * n * n - n), 100.0 * agree / pairs, clear ? 100.0 * clear_agree / clear : 100.0, clear,
         agree == pairs ? "yes" : "no", 100 * (m_of[ip[0]] / m_of[im[0]] - 1), m_of[im[n - 1]] / m_of[im[0]]);
}
static void ranking_head(void) {
  printf("| whole, sum | plans | sum/whole | Spearman | pairs in the same order | of those >2%% apart | "
         "same ranking | regret of the sum's choice | slowest/fastest |\n|---|--:|--:|--:|--:|--:|---|--:|--:|\n");
}

static void do_block(int rounds) {
  int n = 0, uniform, ended;
  for (int l = 0; l < 4; l++)
    for (int f = 1; f >= 0; f--) plans[n++] = make_plan(l, l, l, f, 0);
  uniform = n;
  for (int l = 0; l < 4; l++)
    for (int f = 1; f >= 0; f--) plans[n++] = make_plan(l, l, l, f, 1);
  ended = n;
  for (int i = 0; i < 27; i++)
    for (int f = 1; f >= 0; f--) {
      const int a = i / 9, b = i / 3 % 3, c = i % 3;
      if (a != b || b != c) plans[n++] = make_plan(a, b, c, f, 1);
    }
  for (int i = 0; i < n; i++) {
    if (!plans[i].ok) { fprintf(stderr, "a plan lacks a conversion\n"); exit(1); }
    check_plan(plans + i);
  }
  const double half = 0.5 * rounds;
  for (int r = 0; r < rounds; r++) {
    for (int i = 0; i < n; i++)
      if (i < ended || r < half) time_plan(plans + i);
    for (int i = 0; i < nunit; i++) time_unit(units + i);
    peak_gflops = fmax(peak_gflops, measure_peak());
  }
  double flops = 0;
  for (int i = 0; i < 3; i++) flops += 2.0 * block[i].ic * block[i].oc * block[i].k * block[i].k * HW;
  for (int warm = 0; warm < 2; warm++) {
    printf("\n### Block, %s\n\nTimes in ms of CPU time, %d rounds. `sum`: minima of the kernels in isolation, %s. "
           "GFLOP/s from the minimum; %.0f MFLOP.\n\n",
           warm ? "everything warm (buffers reused)" : "inputs, weights and outputs rotating beyond the last-level cache",
           rounds, warm ? "warm" : "every operand rotating", flops * 1e-6);
    printf("| layout | elementwise | ends in | whole min | whole median | sum | sum/whole | GFLOP/s | of peak |\n"
           "|---|---|---|--:|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < ended; i++) {
      const Plan *p = plans + i;
      const Samples *s = warm ? &p->warm : &p->cold;
      const double m = minimum(s), q = predicted(p, warm, minimum);
      printf("| %s | %s | %s | %.2f | %.2f | %.2f | %.2f | %.1f | %.0f%% |\n", layout_name(lay[p->l[0]]),
             p->fused ? "fused" : "apart", p->conv ? "NCHW" : "same layout", m, median(s), q, q / m, flops / m * 1e-6,
             flops / m * 1e-4 / peak_gflops);
    }
  }
  printf("\n### Does the sum rank plans as the whole does?\n\n");
  ranking_head();
  static const struct { const char *name; int lo, hi, fused; } sets[] = {
      {"uniform layouts, no conversions", 0, 0, 3}, {"uniform layouts, NCHW ends", 1, 0, 3},
      {"all plans (3 layouts per convolution)", 1, 1, 3}, {"all plans, fused", 1, 1, 1}, {"all plans, apart", 1, 1, 2}};
  for (int s = 0; s < 5; s++)
    for (int mode = 0; mode < 3; mode++) { // whole cold/sum cold, whole warm/sum warm, whole cold/sum warm
      int k = 0;
      for (int i = 0; i < n; i++) {
        if (!(sets[s].fused & (plans[i].fused ? 1 : 2))) continue;
        if (sets[s].lo == 0 ? i >= uniform : sets[s].hi == 0 ? i < uniform || i >= ended : i < uniform) continue;
        if (sets[s].hi && plans[i].l[0] == 3) continue; // the mixed plans are of three layouts
        m_of[k] = minimum(mode == 1 ? &plans[i].warm : &plans[i].cold);
        p_of[k++] = predicted(plans + i, mode > 0, minimum);
      }
      char what[128];
      snprintf(what, sizeof what, "%s: %s", sets[s].name, mode == 0 ? "rotating, rotating" : mode == 1 ? "warm, warm" : "rotating, warm");
      ranking(what, k);
    }
  printf("\nThe five fastest and the slowest plans with NCHW ends, rotating:\n\n"
         "| layouts | elementwise | whole min | sum |\n|---|---|--:|--:|\n");
  int idx[128], k = 0;
  for (int i = 0; i < n; i++) m_of[i] = minimum(&plans[i].cold);
  for (int i = uniform; i < n; i++) idx[k++] = i;
  qsort(idx, k, sizeof *idx, cmp_m);
  for (int i = 0; i < k; i++)
    if (i < 5 || i == k - 1) {
      const Plan *p = plans + idx[i];
      printf("| %s, %s, %s | %s | %.2f | %.2f |\n", layout_name(lay[p->l[0]]), layout_name(lay[p->l[1]]),
             layout_name(lay[p->l[2]]), p->fused ? "fused" : "apart", m_of[idx[i]], predicted(p, 0, minimum));
    }
  printf("\n### Kernels of the block in isolation (minimum, ms)\n\n| operator | layout | rotating | warm |\n|---|---|--:|--:|\n");
  for (int i = 0; i < 3; i++)
    for (int e = 0; e < 3; e++)
      for (int l = 0; l < 4; l++)
        for (int u = 0; u < nunit; u++)
          if (units[u].fn == block_kernels[e][i * 4 + l].fn)
            printf("| %s%s | %s | %.3f | %.3f |\n", shapes[i].name, e == 0 ? "" : e == 1 ? " +bias+relu" : " +bias+add+relu",
                   layout_name(lay[l]), minimum(&units[u].cold), minimum(&units[u].warm));
  for (int u = 0; u < nunit; u++) {
    for (int l = 0; l < 4; l++)
      for (int q = 0; q < 2; q++)
        if (units[u].fn == bias_fns[l][q])
          printf("| bias %d | %s | %.3f | %.3f |\n", q ? 256 : 64, layout_name(lay[l]), minimum(&units[u].cold), minimum(&units[u].warm));
    const char *e = units[u].fn == relu64 ? "relu 64" : units[u].fn == relu256 ? "relu 256" : units[u].fn == add256 ? "add 256" : 0;
    if (e) printf("| %s | any | %.3f | %.3f |\n", e, minimum(&units[u].cold), minimum(&units[u].warm));
  }
}

static void do_conversions(int rounds) {
  Unit u[2 * NCVT + 3] = {{0}};
  for (int i = 0; i < NCVT; i++) {
    u[i] = (Unit){"", cvts[i].f64, 64l * HW, 0, 0, 64l * HW, {{0}, 0}, {{0}, 0}};
    u[NCVT + i] = (Unit){"", cvts[i].f256, 256l * HW, 0, 0, 256l * HW, {{0}, 0}, {{0}, 0}};
  }
  Fn extra[3] = {copy64, naive_in, naive_out};
  for (int i = 0; i < 3; i++) u[2 * NCVT + i] = (Unit){"", extra[i], 64l * HW, 0, 0, 64l * HW, {{0}, 0}, {{0}, 0}};
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < 2 * NCVT + 3; i++) time_unit(u + i);
  printf("\n### Conversions of 64x56x56 and 256x56x56\n\nMinimum in ms; GB/s counts bytes read plus written.\n\n"
         "| conversion | 64 rotating | GB/s | 64 warm | GB/s | 256 rotating | 256 warm |\n|---|--:|--:|--:|--:|--:|--:|\n");
  for (int i = 0; i < NCVT + 3; i++) {
    const Unit *a = i < NCVT ? u + i : u + NCVT + i;
    const double c = minimum(&a->cold), w = minimum(&a->warm), gb = 8e-6 * 64 * HW;
    char name[64];
    if (i < NCVT) snprintf(name, sizeof name, "%s to %s", layout_name(cvts[i].from), layout_name(cvts[i].to));
    else strcpy(name, i == NCVT ? "copy (memcpy)" : i == NCVT + 1 ? "NCHW to NHWC, plain loops" : "NHWC to NCHW, plain loops");
    printf("| %s | %.3f | %.1f | %.3f | %.1f |", name, c, gb / c, w, gb / w);
    if (i < NCVT) printf(" %.3f | %.3f |\n", minimum(&u[NCVT + i].cold), minimum(&u[NCVT + i].warm));
    else printf(" | |\n");
  }
}

static void do_shapes(int rounds, int all) {
  static Unit u[NKERNEL];
  for (int k = 0; k < NKERNEL; k++) {
    const Kernel *q = kernels + k;
    const Conv c = shapes[q->shape].c;
    u[k] = (Unit){q->tag, q->fn, physical(q->lin, c.ic, (long)c.h * c.w), packed_size(c, shapes[q->shape].dw, q->wt), 0,
                  physical(q->lout, c.oc, (long)out_h(c) * out_w(c)), {{0}, 0}, {{0}, 0}};
  }
  for (int r = 0; r < rounds; r++) {
    for (int k = 0; k < NKERNEL; k++) time_unit(u + k);
    peak_gflops = fmax(peak_gflops, measure_peak());
  }
  double flops[NSHAPE];
  for (int s = 0; s < NSHAPE; s++) {
    const Conv c = shapes[s].c;
    flops[s] = 2.0 * (shapes[s].dw ? 1 : c.ic) * c.oc * c.k * c.k * out_h(c) * out_w(c);
  }
  if (all) {
    printf("\n### Register blockings (bias and relu fused)\n\ntw a/b: output columns of the main and the remainder tile; nv: vectors of "
           "output channels; rb: rows per pass over the channels; pc1: input copied with padding; to: output channels; tv: "
           "vectors of columns. GFLOP/s from the minimum, percent of the FMA peak.\n\n| shape | in | out | blocking | "
           "rotating | | warm | |\n|---|---|---|---|--:|--:|--:|--:|\n");
    for (int s = 0; s < NSHAPE; s++)
      for (int l = 0; l < 4; l++)
        for (int k = 0; k < NKERNEL; k++) {
          if (kernels[k].shape != s || kernels[k].lin != lay[l]) continue;
          const double c = flops[s] / minimum(&u[k].cold) * 1e-6, w = flops[s] / minimum(&u[k].warm) * 1e-6;
          printf("| %s | %s | %s | %s | %.1f | %.0f%% | %.1f | %.0f%% |\n", shapes[s].name, layout_name(lay[l]),
                 layout_name(kernels[k].lout), kernels[k].tag, c, 100 * c / peak_gflops, w, 100 * w / peak_gflops);
        }
  }
  for (int warm = 0; warm < 2; warm++) {
    printf("\n### Best kernel of each layout by shape, %s\n\nMinimum in ms (GFLOP/s); the input and the output share the layout, "
           "except `mixed`: the fastest with different ones.\n\n| shape | NCHW | NHWC | NCHW16c | NCHW8c | mixed | fastest of NCHW, NHWC, "
           "NCHW16c | lead over the second |\n|---|--:|--:|--:|--:|--:|---|--:|\n", warm ? "warm" : "rotating");
    for (int s = 0; s < NSHAPE; s++) {
      double best[5];
      const char *mix = "";
      for (int l = 0; l < 5; l++) {
        best[l] = 1e9;
        for (int k = 0; k < NKERNEL; k++) {
          const Kernel *q = kernels + k;
          if (q->shape != s || (l < 4 ? q->lin != lay[l] || q->lout != lay[l] : q->lin == q->lout)) continue;
          const double t = minimum(warm ? &u[k].warm : &u[k].cold);
          if (t < best[l]) {
            best[l] = t;
            if (l == 4) mix = q->lin == NCHW ? (q->lout == 16 ? " NCHW to NCHW16c" : " NCHW to NHWC") : " NCHW16c to NHWC";
          }
        }
      }
      int f = 0;
      for (int l = 1; l < 3; l++) if (best[l] < best[f]) f = l;
      double second = 1e9;
      for (int l = 0; l < 3; l++) if (l != f) second = fmin(second, best[l]);
      printf("| %s |", shapes[s].name);
      for (int l = 0; l < 5; l++)
        if (best[l] < 1e8) printf(" %.3f (%.0f)%s |", best[l], flops[s] / best[l] * 1e-6, l == 4 ? mix : "");
        else printf(" |");
      printf(" %s | %.2fx |\n", layout_name(lay[f]), second / best[f]);
    }
  }
}

static void do_matmul(int rounds) {
  static Unit u[NMM][3];
  for (int k = 0; k < NMM; k++)
    for (int v = 0; v < 3; v++)
      u[k][v] = (Unit){"", mms[k].f[v], (long)mms[k].m * mms[k].k, (long)mms[k].n * mms[k].k, 0, (long)mms[k].m * mms[k].n,
                       {{0}, 0}, {{0}, 0}};
  for (int r = 0; r < rounds; r++)
    for (int k = 0; k < NMM; k++)
      for (int v = 0; v < 3; v++) time_unit(&u[k][v]);
  printf("\n### Matmul m x k by k x n, operands as they lie\n\nNN: both row-major; NT: second operand stored [n][k]; TN: first "
         "stored [k][m]. Minimum in ms (GFLOP/s).\n\n| m, n, k | NN rotating | NT rotating | TN rotating | NN warm | NT warm | TN warm |\n"
         "|---|--:|--:|--:|--:|--:|--:|\n");
  for (int k = 0; k < NMM; k++) {
    printf("| %d, %d, %d |", mms[k].m, mms[k].n, mms[k].k);
    for (int w = 0; w < 2; w++)
      for (int v = 0; v < 3; v++) {
        const double t = minimum(w ? &u[k][v].warm : &u[k][v].cold);
        printf(" %.4f (%.0f) |", t, 2e-6 * mms[k].m * mms[k].n * mms[k].k / t);
      }
    printf("\n");
  }
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "all";
  const int rounds = argc > 2 ? imax(1, imin(atoi(argv[2]), ROUNDS_MAX)) : 25;
  const int all = !strcmp(what, "all");
  setvbuf(stdout, 0, _IOLBF, 0);
  ring_r = alloc_rnd(RING), ring_w = alloc_rnd(RING), scratch = alloc(8l << 20);
  if (all || !strcmp(what, "check") || !strcmp(what, "shapes")) check_kernels();
  peak_gflops = measure_peak();
  printf("Measured FMA peak of one core: %.1f GFLOP/s (single precision, 8 lanes).\n", peak_gflops);
  if (all || !strcmp(what, "check") || !strcmp(what, "block")) setup_block();
  if (!strcmp(what, "check")) do_block(1);
  if (all || !strcmp(what, "block")) do_block(2 * rounds > ROUNDS_MAX ? ROUNDS_MAX : 2 * rounds);
  if (all || !strcmp(what, "conversions")) do_conversions(rounds);
  if (all || !strcmp(what, "shapes")) do_shapes(rounds, 1);
  if (all || !strcmp(what, "matmul")) do_matmul(rounds);
  if (worst_error > 0) printf("\nWorst relative error against the double-precision reference: %.1e.\n", worst_error);
  printf("FMA peak measured again at the end: %.1f GFLOP/s.\n", measure_peak());
  return 0;
}
