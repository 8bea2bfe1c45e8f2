//! The C prelude of every generated translation unit: vector types, loads and stores, and the elementary functions.
//!
//! `exp`, `tanh`, `erf` and `sigmoid` are ours, branch-free on vectors, so that no fast-math flag is needed; the scalar forms
//! are lane 0 of the narrowest vector form, so that a remainder gives what the body gives. Largest errors against correctly
//! rounded results, as tested in `tests/it/math.rs`:
//!
//! | function | error | method |
//! |---|---|---|
//! | `exp` | 2 ulp, results below 2⁻¹²⁶ (denormal) included | n = round(x·log₂e), r = x − n·ln 2 in two parts, degree 7 |
//! | `tanh` | 4 ulp | odd polynomial below 0.625, else 1 − 2/(e²ˣ + 1) |
//! | `erf` | 4 ulp | odd polynomial below 0.9375, else 1 − exp(degree 8) |
//! | `sigmoid` | 4 ulp, results below 2⁻¹²⁶ included | 1/(1 + e⁻ˣ), or eˣ/(1 + eˣ) below 0 |
//!
//! `log`, `sin`, `cos` and `pow` call the C library lane by lane: they are rare in the models and its results are accurate.
//! Polynomials are Chebyshev interpolants of the exact functions.

use std::fmt::Write as _;

/// The part of the prelude that does not depend on a vector width.
const SCALAR: &str = r#"#include <stdint.h>
#include <string.h>
#include <math.h>
#define INLINE static inline __attribute__((always_inline, unused))
#define FENCE __asm__ volatile("" ::: "memory")
#if defined(__AVX512F__)
#define KEEP(x) __asm__("" : "+v"(x))
#elif defined(__AVX__)
#define KEEP(x) __asm__("" : "+x"(x))
#else
#define KEEP(x)
#endif
typedef float f32;
typedef int64_t i64;
/* floor division and remainder by a positive divisor */
INLINE i64 fdiv(i64 a, i64 b) { i64 q = a / b; return q - (a % b < 0); }
INLINE i64 fmodi(i64 a, i64 b) { i64 r = a % b; return r < 0 ? r + b : r; }
INLINE i64 imin(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 imax(i64 a, i64 b) { return a > b ? a : b; }
INLINE i64 iabs(i64 a) { return a < 0 ? (i64)(0 - (uint64_t)a) : a; }
INLINE i64 clampi(i64 i, i64 n) { i = i < 0 ? i + n : i; return i < 0 ? 0 : i >= n ? n - 1 : i; }
/* integer operators of any two values; division by zero gives 0 */
INLINE i64 idivt(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (uint64_t)a) : a / b; }
INLINE i64 imods(i64 a, i64 b) { if (b == 0 || b == -1) return 0; i64 r = a % b; return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
INLINE i64 ipow(i64 a, i64 e) {
  if (a == 1) return 1;
  if (a == -1) return e % 2 == 0 ? 1 : -1;
  if (e < 0) return 0;
  uint64_t r = 1, s = (uint64_t)a;
  for (; e > 0; e >>= 1) { if (e & 1) r *= s; s *= s; }
  return (i64)r;
}
/* float to integer: truncates and saturates, NaN gives 0 */
INLINE i64 f2i(f32 x, i64 lo, i64 hi, f32 flo, f32 fhi) { return x != x ? 0 : x <= flo ? lo : x >= fhi ? hi : (i64)x; }
#define F2I64(x) f2i(x, INT64_MIN, INT64_MAX, -9223372036854775808.0f, 9223372036854775808.0f)
#define F2I32(x) f2i(x, INT32_MIN, INT32_MAX, -2147483648.0f, 2147483648.0f)
#define F2I8(x) f2i(x, -128, 127, -128.0f, 127.0f)
#define F2U8(x) f2i(x, 0, 255, 0.0f, 255.0f)
INLINE f32 fmins(f32 a, f32 b) { return a < b || a != a ? a : b; }
INLINE f32 fmaxs(f32 a, f32 b) { return a > b || a != a ? a : b; }
INLINE f32 fmods(f32 a, f32 b) { f32 r = fmodf(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
INLINE uint32_t bits_of(f32 x) { uint32_t u; memcpy(&u, &x, 4); return u; }
INLINE f32 of_bits(uint32_t u) { f32 x; memcpy(&x, &u, 4); return x; }
/* 16-bit floats: values are computed as f32 and rounded to nearest even */
INLINE f32 bf16_to_f32(uint16_t h) { return of_bits((uint32_t)h << 16); }
INLINE uint16_t f32_to_bf16(f32 x) {
  uint32_t u = bits_of(x);
  if (x != x) return (uint16_t)((u >> 16) | 0x40);
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
INLINE f32 f16_to_f32(uint16_t h) {
  uint32_t s = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
  if (e == 31) return of_bits(s | 0x7f800000u | m << 13);
  if (e == 0) { f32 v = (f32)m * 5.9604644775390625e-8f; return s ? -v : v; }
  return of_bits(s | (e + 112) << 23 | m << 13);
}
INLINE uint16_t f32_to_f16(f32 x) {
  uint32_t u = bits_of(x), s = (u >> 16) & 0x8000, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(s | 0x7e00 | ((a >> 13) & 0x3ff));
  if (a >= 0x477ff000u) return (uint16_t)(s | 0x7c00);
  if (a < 0x38800000u) { f32 v = of_bits(a) + 0.5f; return (uint16_t)(s | (bits_of(v) - 0x3f000000u)); }
  a += 0xfff + ((a >> 13) & 1);
  return (uint16_t)(s | ((a - 0x38000000u) >> 13));
}
#define RBF16(x) bf16_to_f32(f32_to_bf16(x))
#define RF16(x) f16_to_f32(f32_to_f16(x))
"#;

/// The part for one vector width; `@` stands for the number of lanes.
const VECTOR: &str = r#"typedef f32 v@ __attribute__((vector_size(4 * @)));
typedef int32_t m@ __attribute__((vector_size(4 * @)));
typedef f32 u@ __attribute__((vector_size(4 * @), aligned(4), may_alias));
#define LD@(p) ((v@)*(const u@ *)(p))
#define ST@(p, v) (*(u@ *)(p) = (v))
#define VS@(x) ((f32)(x) - (v@){0})
INLINE v@ sel@(m@ c, v@ a, v@ b) { return (v@)((c & (m@)a) | (~c & (m@)b)); }
INLINE v@ min@(v@ a, v@ b) { return sel@((m@)(a < b) | (m@)(a != a), a, b); }
INLINE v@ max@(v@ a, v@ b) { return sel@((m@)(a > b) | (m@)(a != a), a, b); }
INLINE v@ abs@(v@ x) { return (v@)((m@)x & 0x7fffffff); }
INLINE v@ each_sqrt@(v@ x) { for (int i = 0; i < @; ++i) x[i] = sqrtf(x[i]); return x; }
INLINE v@ each_log@(v@ x) { for (int i = 0; i < @; ++i) x[i] = logf(x[i]); return x; }
INLINE v@ each_sin@(v@ x) { for (int i = 0; i < @; ++i) x[i] = sinf(x[i]); return x; }
INLINE v@ each_cos@(v@ x) { for (int i = 0; i < @; ++i) x[i] = cosf(x[i]); return x; }
INLINE v@ each_floor@(v@ x) { for (int i = 0; i < @; ++i) x[i] = floorf(x[i]); return x; }
INLINE v@ each_ceil@(v@ x) { for (int i = 0; i < @; ++i) x[i] = ceilf(x[i]); return x; }
INLINE v@ each_pow@(v@ x, v@ y) { for (int i = 0; i < @; ++i) x[i] = powf(x[i], y[i]); return x; }
INLINE v@ each_mod@(v@ x, v@ y) { for (int i = 0; i < @; ++i) x[i] = fmods(x[i], y[i]); return x; }
INLINE f32 hsum@(v@ x) { f32 s[@]; memcpy(s, &x, sizeof s); for (int n = @ / 2; n > 0; n /= 2) for (int i = 0; i < n; ++i) s[i] += s[i + n]; return s[0]; }
INLINE f32 hprod@(v@ x) { f32 s[@]; memcpy(s, &x, sizeof s); for (int n = @ / 2; n > 0; n /= 2) for (int i = 0; i < n; ++i) s[i] *= s[i + n]; return s[0]; }
INLINE f32 hmax@(v@ x) { f32 r = x[0]; for (int i = 1; i < @; ++i) r = fmaxs(r, x[i]); return r; }
INLINE f32 hmin@(v@ x) { f32 r = x[0]; for (int i = 1; i < @; ++i) r = fmins(r, x[i]); return r; }
INLINE v@ exp@(v@ x0) {
  v@ x = sel@((m@)(x0 > 89.0f), VS@(89.0f), x0);
  x = sel@((m@)(x < -104.0f), VS@(-104.0f), x);
  v@ k = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the sum's low bits are round(x log2 e) */
  m@ n = (m@)k - 0x4b400000;
  k = k - 12582912.0f;
  v@ r = x - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  v@ p = r * 0.00019891080f + 0.0013933731f;
  p = p * r + 0.0083333108f;
  p = p * r + 0.041666464f;
  p = p * r + 0.16666667f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  m@ h = n >> 1; /* two factors, so that 2^n may overflow or be denormal */
  return p * (v@)((h + 127) << 23) * (v@)((n - h + 127) << 23);
}
INLINE v@ tanh@(v@ x) {
  v@ a = abs@(x), s = x * x;
  v@ p = s * 0.0022927449f + -0.0083439456f;
  p = p * s + 0.021768919f;
  p = p * s + -0.053959260f;
  p = p * s + 0.13333304f;
  p = p * s + -0.33333333f;
  v@ small = p * s * x + x;
  v@ large = 1.0f - 2.0f / (exp@(2.0f * a) + 1.0f);
  large = (v@)((m@)large | ((m@)x & (int32_t)0x80000000));
  return sel@((m@)(a < 0.625f), small, large);
}
INLINE v@ erf@(v@ x) {
  v@ a = abs@(x), s = x * x;
  v@ p = s * 8.2858229e-05f + -0.00081229599f;
  p = p * s + 0.0051993181f;
  p = p * s + -0.026858723f;
  p = p * s + 0.11283684f;
  p = p * s + -0.37612633f;
  p = p * s + 0.12837917f;
  v@ small = p * x + x;
  v@ t = sel@((m@)(a > 4.0f), VS@(4.0f), a);
  v@ q = t * 1.6432831548e-06f + -4.6175110292e-05f;
  q = q * t + 0.00059774804840f;
  q = q * t + -0.0047637507591f;
  q = q * t + 0.026432024662f;
  q = q * t + -0.11009728675f;
  q = q * t + -0.63181027814f;
  q = q * t + -1.1302409298f;
  q = q * t + 0.00032148696258f;
  v@ large = 1.0f - exp@(q);
  large = (v@)((m@)large | ((m@)x & (int32_t)0x80000000));
  return sel@((m@)(a < 0.9375f), small, large);
}
INLINE v@ sigmoid@(v@ x) {
  v@ e = exp@((v@)((m@)x | (int32_t)0x80000000)); /* of -|x|: never overflows, so that small results keep their digits */
  return sel@((m@)(x < 0.0f), e, VS@(1.0f)) / (1.0f + e);
}
"#;

/// Scalar forms, after the four-lane vectors are defined.
const SCALAR_FUNCTIONS: &str = r#"INLINE f32 exp1(f32 x) { return exp4(VS4(x))[0]; }
INLINE f32 tanh1(f32 x) { return tanh4(VS4(x))[0]; }
INLINE f32 erf1(f32 x) { return erf4(VS4(x))[0]; }
INLINE f32 sigmoid1(f32 x) { return sigmoid4(VS4(x))[0]; }
"#;

/// Exchanges the off-diagonal blocks of two rows: the step of an in-register transpose for every block size.
fn swaps(lanes: usize) -> String {
    let mut out = String::new();
    let mut half = lanes / 2;
    while half > 0 {
        let list = |f: &dyn Fn(usize) -> usize| {
            (0..lanes)
                .map(|l| f(l).to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let low = list(&|l| if l & half == 0 { l } else { lanes + l - half });
        let high = list(&|l| if l & half == 0 { l + half } else { lanes + l });
        let _ = writeln!(
            out,
            "#define SWAP{lanes}_{half}(a, b) do {{ const v{lanes} x = __builtin_shuffle(a, b, (m{lanes}){{{low}}}); b = __builtin_shuffle(a, b, (m{lanes}){{{high}}}); a = x; }} while (0)"
        );
        half /= 2;
    }
    out
}

/// The prelude for the vector widths given (in lanes, four is always there).
pub fn prelude(lanes: &[usize]) -> String {
    let mut out = String::from(SCALAR);
    out.push_str(&VECTOR.replace('@', "4"));
    out.push_str(SCALAR_FUNCTIONS);
    let mut wider: Vec<usize> = lanes.iter().copied().filter(|l| *l > 4).collect();
    wider.sort_unstable();
    wider.dedup();
    out.push_str(&swaps(4));
    for l in wider {
        if l == 8 {
            out.push_str(&swaps(8));
        }
        out.push_str(&VECTOR.replace('@', &l.to_string()));
        // Every second element, without touching the element after the last one used.
        let low: Vec<String> = (0..l / 2).map(|i| (2 * i).to_string()).collect();
        let high: Vec<String> = (0..l / 2).map(|i| (l + 2 * i + 1).to_string()).collect();
        let _ = writeln!(
            out,
            "INLINE v{l} LD{l}_2(const f32 *p) {{ return __builtin_shuffle(LD{l}(p), LD{l}(p + {}), (m{l}){{{}, {}}}); }}",
            l - 1,
            low.join(", "),
            high.join(", ")
        );
    }
    let _ = writeln!(
        out,
        "INLINE v4 LD4_2(const f32 *p) {{ return __builtin_shuffle(LD4(p), LD4(p + 3), (m4){{0, 2, 5, 7}}); }}"
    );
    out
}
